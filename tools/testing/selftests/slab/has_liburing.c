// SPDX-License-Identifier: GPL-2.0
/*
 * Compiles, and links, if there is a liburing with what ublk_null.c wants of it: 2.3
 * has all of that. For the Makefile; nobody runs it.
 */
#include <liburing.h>

int main(void)
{
	struct io_uring_sqe sqe = { .cmd_op = IORING_OP_URING_CMD };
	struct io_uring_cqe *cqe;
	struct io_uring ring;
	int err;

	err = io_uring_queue_init(4, &ring, IORING_SETUP_SQE128 |
				  IORING_SETUP_COOP_TASKRUN |
				  IORING_SETUP_SINGLE_ISSUER);
	return err || sqe.cmd[0] || !io_uring_get_sqe(&ring) ||
	       io_uring_submit_and_wait(&ring, 1) < 0 ||
	       io_uring_peek_cqe(&ring, &cqe);
}
