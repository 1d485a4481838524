// SPDX-License-Identifier: GPL-2.0
/*
 * A ublk server with a null target: reads give zeroes, writes go nowhere.
 *
 * One thread for each queue, which can be bound to a CPU. As the thread that
 * commits a request also ends its bio, this says on which CPU bios are freed.
 *
 * Two processes. The keeper adds the device, and deletes it when the other end
 * of a pipe is closed; it does not care for signals. The server has the queues,
 * and the other end of the pipe: however it ends, kill -9 included, the pipe is
 * closed and the device goes away.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <liburing.h>
#include <linux/ublk_cmd.h>

#define CTRL_PATH	"/dev/ublk-control"
#define MAX_QUEUES	64
#define MAX_IO_BYTES	(64U << 10)
#define SECTOR_SHIFT	9

/* What is to fail, so that it can be seen what comes of it. */
enum fault {
	FAULT_NONE,
	FAULT_FETCH,
	FAULT_RING,
};

struct options {
	enum fault fault;
	unsigned int queues;
	unsigned int depth;
	unsigned int nr_cpus;
	int cpus[MAX_QUEUES];
	unsigned long long size;
};

/* Where commands for the driver go. */
struct ctrl {
	int fd;
	struct io_uring ring;
};

struct queue {
	unsigned int id;
	unsigned int depth;
	enum fault fault;
	int cpu;			/* or -1 */
	int cdev;
	struct io_uring ring;
	const struct ublksrv_io_desc *descs;
	char *buffers;			/* MAX_IO_BYTES for each tag */
	int err;
	sem_t ready;
	pthread_t thread;
};

static struct queue queues[MAX_QUEUES];
static atomic_bool started;

#define complain(fmt, ...) \
	fprintf(stderr, "ublk_null: " fmt "\n", ##__VA_ARGS__)

/*
 * Commands
 */

static int ctrl_open(struct ctrl *ctrl)
{
	int err;

	ctrl->fd = open(CTRL_PATH, O_RDWR | O_CLOEXEC);
	if (ctrl->fd < 0) {
		if (errno == ENOENT || errno == ENXIO)
			complain("no %s, this kernel has no ublk_drv or has not loaded it",
				 CTRL_PATH);
		else
			complain("cannot open %s: %s", CTRL_PATH,
				 strerror(errno));
		return -1;
	}

	err = io_uring_queue_init(4, &ctrl->ring, IORING_SETUP_SQE128);
	if (err) {
		complain("cannot set up an io_uring: %s", strerror(-err));
		close(ctrl->fd);
		return -1;
	}
	return 0;
}

static int ctrl_send(struct ctrl *ctrl, unsigned int op,
		     const struct ublksrv_ctrl_cmd *cmd)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ctrl->ring);
	struct io_uring_cqe *cqe;
	int ret;

	io_uring_prep_rw(IORING_OP_URING_CMD, sqe, ctrl->fd, NULL, 0, 0);
	sqe->cmd_op = op;
	memcpy((void *)&sqe->cmd, cmd, sizeof(*cmd));

	ret = io_uring_submit(&ctrl->ring);
	if (ret < 0)
		return ret;
	do {
		ret = io_uring_wait_cqe(&ctrl->ring, &cqe);
	} while (ret == -EINTR);
	if (ret)
		return ret;
	ret = cqe->res;
	io_uring_cqe_seen(&ctrl->ring, cqe);
	return ret;
}

static int add_dev(struct ctrl *ctrl, const struct options *opts)
{
	struct ublksrv_ctrl_dev_info info = {
		.nr_hw_queues = opts->queues,
		.queue_depth = opts->depth,
		.max_io_buf_bytes = MAX_IO_BYTES,
		.dev_id = -1,
		.ublksrv_pid = -1,
	};
	struct ublksrv_ctrl_cmd cmd = {
		.dev_id = -1,
		.queue_id = -1,
		.addr = (unsigned long)&info,
		.len = sizeof(info),
	};
	int err;

	err = ctrl_send(ctrl, UBLK_U_CMD_ADD_DEV, &cmd);
	if (err)
		return err;
	if (info.nr_hw_queues != opts->queues) {
		cmd.dev_id = info.dev_id;
		ctrl_send(ctrl, UBLK_U_CMD_DEL_DEV_ASYNC, &cmd);
		return -ERANGE;
	}
	return info.dev_id;
}

static int set_params(struct ctrl *ctrl, int dev, unsigned long long size)
{
	struct ublk_params params = {
		.len = sizeof(params),
		.types = UBLK_PARAM_TYPE_BASIC,
		.basic = {
			.logical_bs_shift = 12,
			.physical_bs_shift = 12,
			.io_opt_shift = 12,
			.io_min_shift = 12,
			.max_sectors = MAX_IO_BYTES >> SECTOR_SHIFT,
			.dev_sectors = size >> SECTOR_SHIFT,
		},
	};
	struct ublksrv_ctrl_cmd cmd = {
		.dev_id = dev,
		.queue_id = -1,
		.addr = (unsigned long)&params,
		.len = sizeof(params),
	};

	return ctrl_send(ctrl, UBLK_U_CMD_SET_PARAMS, &cmd);
}

/* Returns when the queues have served what add_disk() reads. */
static int start_dev(struct ctrl *ctrl, int dev)
{
	struct ublksrv_ctrl_cmd cmd = {
		.dev_id = dev,
		.queue_id = -1,
		.data = { getpid() },
	};

	return ctrl_send(ctrl, UBLK_U_CMD_START_DEV, &cmd);
}

static int simple_cmd(struct ctrl *ctrl, int dev, unsigned int op)
{
	struct ublksrv_ctrl_cmd cmd = {
		.dev_id = dev,
		.queue_id = -1,
	};

	return ctrl_send(ctrl, op, &cmd);
}

/*
 * The keeper
 */

static int keeper_add(struct ctrl *ctrl, const struct options *opts)
{
	int dev, err;

	dev = add_dev(ctrl, opts);
	if (dev == -ERANGE) {
		complain("%u queues are more than this machine has CPUs",
			 opts->queues);
		return dev;
	}
	if (dev < 0) {
		complain("cannot add a device: %s", strerror(-dev));
		return dev;
	}

	err = set_params(ctrl, dev, opts->size);
	if (err) {
		complain("cannot set up device %d: %s", dev, strerror(-err));
		simple_cmd(ctrl, dev, UBLK_U_CMD_DEL_DEV_ASYNC);
		return err;
	}
	return dev;
}

/*
 * Asynchronous deletion takes the device files away before it returns. The
 * other kind also waits until the last user has closed its file.
 */
static int keeper(const struct options *opts, int answer, int server)
{
	struct ctrl ctrl;
	int dev, err;
	char c;

	setsid();
	/* Who waits for the end of the server's output does not wait for us. */
	close(STDOUT_FILENO);
	if (ctrl_open(&ctrl))
		return 1;

	dev = keeper_add(&ctrl, opts);
	if (dev < 0)
		return 1;
	/* If the server is gone already, read() tells. */
	if (write(answer, &dev, sizeof(dev)) != sizeof(dev))
		complain("the server is gone");
	close(answer);

	while (read(server, &c, 1) < 0 && errno == EINTR)
		;
	err = simple_cmd(&ctrl, dev, UBLK_U_CMD_DEL_DEV_ASYNC);
	if (err && err != -ENODEV) {
		complain("cannot delete device %d: %s", dev, strerror(-err));
		return 1;
	}
	return 0;
}

/* Returns the number of the device; *@alive is the end of the pipe to close. */
static int start_keeper(const struct options *opts, pid_t *pid, int *alive)
{
	int answer[2], life[2];
	int dev = -1;

	if (pipe2(answer, O_CLOEXEC) || pipe2(life, O_CLOEXEC)) {
		complain("cannot make a pipe: %s", strerror(errno));
		return -1;
	}
	*pid = fork();
	if (*pid < 0) {
		complain("cannot fork: %s", strerror(errno));
		return -1;
	}
	if (!*pid) {
		close(answer[0]);
		close(life[1]);
		_exit(keeper(opts, answer[1], life[0]));
	}
	close(answer[1]);
	close(life[0]);
	/* A keeper that fails has said why. */
	if (read(answer[0], &dev, sizeof(dev)) != sizeof(dev))
		dev = -1;
	close(answer[0]);
	*alive = life[1];
	return dev;
}

static int end_keeper(pid_t pid, int alive)
{
	int status;

	close(alive);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return 1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

/*
 * The queues
 */

static char *tag_buffer(struct queue *q, unsigned int tag)
{
	return q->buffers + (size_t)tag * MAX_IO_BYTES;
}

static void queue_cmd(struct queue *q, unsigned int op, unsigned int tag,
		      int result)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&q->ring);
	struct ublksrv_io_cmd cmd = {
		.q_id = q->id,
		.tag = tag,
		.result = result,
		.addr = (unsigned long)tag_buffer(q, tag),
	};

	io_uring_prep_rw(IORING_OP_URING_CMD, sqe, q->cdev, NULL, 0, 0);
	sqe->cmd_op = op;
	sqe->user_data = tag;
	memcpy((void *)&sqe->cmd, &cmd, sizeof(cmd));
}

static void handle_request(struct queue *q, unsigned int tag)
{
	const struct ublksrv_io_desc *desc = &q->descs[tag];
	int bytes = desc->nr_sectors << SECTOR_SHIFT;

	/* What was written must not be read by the next user of the tag. */
	if (ublksrv_get_op(desc) == UBLK_IO_OP_WRITE)
		memset(tag_buffer(q, tag), 0, bytes);
	queue_cmd(q, UBLK_U_IO_COMMIT_AND_FETCH_REQ, tag, bytes);
}

/*
 * Until the device is stopped: then each tag's command ends with ABORT. Whatever else
 * is not a request is an error.
 */
static int serve(struct queue *q)
{
	unsigned int fetching = q->depth;

	while (fetching) {
		struct io_uring_cqe *cqe;
		unsigned int head, nr = 0;
		int err;

		/*
		 * As if it were closed. If it were, the commands would be cancelled
		 * by a kernel thread, of which ublk_drv warns.
		 */
		if (q->fault == FAULT_RING && atomic_load(&started))
			q->ring.enter_ring_fd = -1;
		err = io_uring_submit_and_wait(&q->ring, 1);
		if (err < 0 && err != -EINTR)
			return err;
		io_uring_for_each_cqe(&q->ring, head, cqe) {
			if (cqe->res == UBLK_IO_RES_OK)
				handle_request(q, cqe->user_data);
			else if (cqe->res == UBLK_IO_RES_ABORT)
				fetching--;
			else
				return cqe->res;
			nr++;
		}
		io_uring_cq_advance(&q->ring, nr);
	}
	return 0;
}

static int bind_queue(struct queue *q)
{
	cpu_set_t set;

	if (q->cpu < 0)
		return 0;
	CPU_ZERO(&set);
	CPU_SET(q->cpu, &set);
	return sched_setaffinity(0, sizeof(set), &set) ? -errno : 0;
}

/* What the descriptors of a queue of this depth take, in whole pages. */
static size_t descs_bytes(unsigned int depth)
{
	size_t page = sysconf(_SC_PAGESIZE);
	size_t bytes = depth * sizeof(struct ublksrv_io_desc);

	return (bytes + page - 1) / page * page;
}

static int map_queue(struct queue *q)
{
	/* Each queue has the room that the largest depth would need. */
	off_t off = q->id * descs_bytes(UBLK_MAX_QUEUE_DEPTH);

	q->descs = mmap(NULL, descs_bytes(q->depth), PROT_READ,
			MAP_SHARED | MAP_POPULATE, q->cdev,
			UBLKSRV_CMD_BUF_OFFSET + off);
	if (q->descs == MAP_FAILED)
		return -errno;

	q->buffers = mmap(NULL, (size_t)q->depth * MAX_IO_BYTES,
			  PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS |
			  MAP_NORESERVE, -1, 0);
	return q->buffers == MAP_FAILED ? -errno : 0;
}

/*
 * Nothing is requested yet: a command that has ended has failed, and the device
 * would not start for as long as this one is missing.
 */
static int fetch_all(struct queue *q)
{
	struct io_uring_cqe *cqe;
	unsigned int tag;
	int err;

	for (tag = 0; tag < q->depth; tag++)
		queue_cmd(q, UBLK_U_IO_FETCH_REQ,
			  q->fault == FAULT_FETCH && tag == q->depth - 1 ?
			  q->depth : tag, 0);
	err = io_uring_submit(&q->ring);
	if (err < 0)
		return err;
	if (io_uring_peek_cqe(&q->ring, &cqe))
		return 0;
	return cqe->res < 0 ? cqe->res : -EPROTO;
}

static int setup_queue(struct queue *q)
{
	int err;

	err = bind_queue(q);
	if (!err)
		err = map_queue(q);
	if (!err)
		err = io_uring_queue_init(q->depth, &q->ring,
					  IORING_SETUP_COOP_TASKRUN |
					  IORING_SETUP_SINGLE_ISSUER);
	return err ? err : fetch_all(q);
}

static void complain_queue(const struct queue *q, int err)
{
	if (q->cpu >= 0)
		complain("queue %u on CPU %d: %s", q->id, q->cpu, strerror(-err));
	else
		complain("queue %u: %s", q->id, strerror(-err));
}

static void *queue_thread(void *arg)
{
	struct queue *q = arg;

	q->err = setup_queue(q);
	sem_post(&q->ready);
	if (q->err)
		return NULL;

	/*
	 * The others may be in the middle of something that this queue is needed for,
	 * such as starting the device: they do not get out of it but by the end of the
	 * process, which also ends the device.
	 */
	q->err = serve(q);
	if (q->err) {
		complain_queue(q, q->err);
		_exit(1);
	}
	/* Somebody else may have stopped the device. */
	kill(getpid(), SIGTERM);
	return NULL;
}

static int start_queues(const struct options *opts, int cdev)
{
	unsigned int i;
	int err;

	for (i = 0; i < opts->queues; i++) {
		struct queue *q = &queues[i];

		q->id = i;
		q->depth = opts->depth;
		/* The last one will do. */
		q->fault = i == opts->queues - 1 ? opts->fault : FAULT_NONE;
		q->cpu = opts->nr_cpus ? opts->cpus[i] : -1;
		q->cdev = cdev;
		sem_init(&q->ready, 0, 0);
		err = -pthread_create(&q->thread, NULL, queue_thread, q);
		if (!err) {
			sem_wait(&q->ready);
			err = q->err;
		}
		if (err) {
			complain_queue(q, err);
			return err;
		}
	}
	return 0;
}

/*
 * The server
 */

static int open_cdev(int dev)
{
	char path[32];
	int fd, tries;

	snprintf(path, sizeof(path), "/dev/ublkc%d", dev);
	/* Where udev makes the file, it takes its time. */
	for (tries = 0; tries < 100; tries++) {
		fd = open(path, O_RDWR | O_CLOEXEC);
		if (fd >= 0 || (errno != ENOENT && errno != EACCES))
			break;
		usleep(10000);
	}
	if (fd < 0)
		complain("cannot open %s: %s", path, strerror(errno));
	return fd;
}

static int serve_until_signal(struct ctrl *ctrl, const struct options *opts,
			      int dev, const sigset_t *signals)
{
	unsigned int i;
	int err, sig;

	err = start_dev(ctrl, dev);
	if (err) {
		complain("cannot start device %d: %s", dev, strerror(-err));
		return 1;
	}
	atomic_store(&started, true);
	printf("/dev/ublkb%d\n", dev);
	fflush(stdout);

	sigwait(signals, &sig);

	err = simple_cmd(ctrl, dev, UBLK_U_CMD_STOP_DEV);
	if (err && err != -ENODEV) {
		complain("cannot stop device %d: %s", dev, strerror(-err));
		return 1;
	}
	for (i = 0; i < opts->queues; i++)
		pthread_join(queues[i].thread, NULL);
	return 0;
}

/* If this fails midway, the end of the process stops threads and device. */
static int server(const struct options *opts, const sigset_t *signals)
{
	struct ctrl ctrl;
	int dev, cdev, alive, ret = 1;
	pid_t pid;

	dev = start_keeper(opts, &pid, &alive);
	if (dev < 0)
		return 1;
	cdev = open_cdev(dev);
	if (cdev < 0 || ctrl_open(&ctrl) || start_queues(opts, cdev))
		_exit(1);

	ret = serve_until_signal(&ctrl, opts, dev, signals);
	if (ret)
		_exit(ret);
	close(cdev);
	return end_keeper(pid, alive);
}

/*
 * Arguments
 */

static const char usage[] =
	"usage: ublk_null [-q queues] [-d depth] [-c cpu,cpu...] [-s size[KMGT]]\n"
	"                 [-f fetch|ring]\n"
	"  -q  number of queues, 1\n"
	"  -d  depth of each queue, 128\n"
	"  -c  the CPUs that the threads of the queues run on, one for each queue\n"
	"  -s  size of the device, a multiple of 4K, 1G\n"
	"  -f  let something fail in the last queue, as a test: the command that fetches\n"
	"      the last tag, or the io_uring, once a request has come\n"
	"Prints the path of the device when it is ready, serves it until SIGTERM or\n"
	"SIGINT, and deletes it, which happens too if it is killed in any other way.\n";

static bool parse_number(const char *s, char **end, unsigned long long *val)
{
	if (*s < '0' || *s > '9')
		return false;
	errno = 0;
	*val = strtoull(s, end, 10);
	return !errno;
}

static bool parse_limited(const char *s, unsigned int max, unsigned int *val)
{
	unsigned long long n;
	char *end;

	if (!parse_number(s, &end, &n) || *end || !n || n > max)
		return false;
	*val = n;
	return true;
}

static bool parse_size(const char *s, unsigned long long *val)
{
	static const char units[] = "KMGT";
	const char *unit;
	char *end;

	if (!parse_number(s, &end, val))
		return false;
	if (*end) {
		unit = strchr(units, *end);
		if (!unit || end[1] || *val >> 20)
			return false;
		*val <<= 10 * (unit - units + 1);
	}
	return *val && *val % 4096 == 0;
}

static bool parse_cpus(char *s, struct options *opts)
{
	unsigned long long n;
	char *end;

	for (;;) {
		if (opts->nr_cpus == MAX_QUEUES ||
		    !parse_number(s, &end, &n) || n >= CPU_SETSIZE)
			return false;
		opts->cpus[opts->nr_cpus++] = n;
		if (!*end)
			return true;
		if (*end != ',')
			return false;
		s = end + 1;
	}
}

static bool parse_fault(const char *s, enum fault *fault)
{
	if (!strcmp(s, "fetch"))
		*fault = FAULT_FETCH;
	else if (!strcmp(s, "ring"))
		*fault = FAULT_RING;
	else
		return false;
	return true;
}

static bool parse_option(int opt, struct options *opts)
{
	switch (opt) {
	case 'q':
		return parse_limited(optarg, MAX_QUEUES, &opts->queues);
	case 'd':
		return parse_limited(optarg, UBLK_MAX_QUEUE_DEPTH,
				     &opts->depth);
	case 'c':
		opts->nr_cpus = 0;
		return parse_cpus(optarg, opts);
	case 's':
		return parse_size(optarg, &opts->size);
	case 'f':
		return parse_fault(optarg, &opts->fault);
	}
	return false;
}

static int parse_options(int argc, char **argv, struct options *opts)
{
	int opt;

	opterr = 0;
	while ((opt = getopt(argc, argv, "hq:d:c:s:f:")) != -1) {
		if (opt == 'h') {
			fputs(usage, stdout);
			exit(0);
		}
		if (opt == '?') {
			complain("option -%c: unknown, or lacks its value; see -h",
				 optopt);
			return -1;
		}
		if (!parse_option(opt, opts)) {
			complain("-%c %s: not a value for this option, see -h",
				 opt, optarg);
			return -1;
		}
	}
	if (optind < argc) {
		complain("%s: no such argument, see -h", argv[optind]);
		return -1;
	}
	if (opts->nr_cpus && opts->nr_cpus != opts->queues) {
		complain("-c names %u CPUs for %u queues", opts->nr_cpus,
			 opts->queues);
		return -1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct options opts = {
		.queues = 1,
		.depth = 128,
		.size = 1ULL << 30,
	};
	sigset_t signals;

	if (parse_options(argc, argv, &opts))
		return 2;

	/* Blocked everywhere, and waited for when the device is there. */
	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGHUP);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	signal(SIGPIPE, SIG_IGN);
	return server(&opts, &signals);
}
