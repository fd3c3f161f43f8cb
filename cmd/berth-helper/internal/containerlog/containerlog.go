// Package containerlog owns the helper's role of reading what a container writes: the Docker daemon keeps that, and has
// it read by those who ask. The shim keeps what this process writes, as it keeps what tasks write that it runs itself.
package containerlog

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Args is how many arguments Run takes.
const Args = 5

// Pauses before a daemon that is away is asked again.
const (
	leastPause = 50 * time.Millisecond
	mostPause  = 2 * time.Second
)

// Run passes on what a container writes to standard output and standard error until the container has ended or is
// gone. A daemon that goes away meanwhile is waited for, and what was read is not read again.
// The arguments are the daemon's socket, the version of its API, the container's id, "tty" or "streams", and from which
// time on it is read, in the daemon's form; empty: from the beginning.
func Run(args []string) error {
	f := &follower{
		socket:  args[0],
		version: args[1],
		id:      args[2],
		tty:     args[3] == "tty",
		last:    args[4],
		out:     os.Stdout,
		err:     os.Stderr,
	}
	for pause := leastPause; ; {
		before := f.read
		over, err := f.follow()
		if err == nil && over {
			return nil
		}
		var failed *writeError
		if errors.As(err, &failed) {
			return err
		}
		if f.read > before {
			pause = leastPause
		}
		time.Sleep(pause)
		pause = min(2*pause, mostPause)
	}
}

type follower struct {
	socket, version, id string
	tty                 bool
	out, err            io.Writer

	last string // the time of what was read last
	same int    // how much of that time was read
	read int64  // bytes in all
}

// writeError says that what is read cannot be passed on.
type writeError struct{ err error }

func (e *writeError) Error() string { return e.err.Error() }
func (e *writeError) Unwrap() error { return e.err }

// follow reads as long as the daemon gives, and reports whether the container writes no more.
func (f *follower) follow() (over bool, err error) {
	query := "follow=1&stdout=1&stderr=1"
	if f.last != "" {
		since, err := unixTime(f.last)
		if err != nil {
			return false, err
		}
		query += "&since=" + since
	}
	if !f.tty {
		query += "&timestamps=1"
	}
	body, status, err := f.get("/containers/"+f.id+"/logs?"+query, "")
	if err != nil {
		return false, err
	}
	defer func() { _ = body.Close() }() // it was read
	switch {
	case status == 404:
		return true, nil
	case status != 200:
		return false, fmt.Errorf("the daemon answers %d", status)
	case f.tty:
		err = f.copyPlain(body)
	default:
		err = f.copyFrames(body)
	}
	if err != nil {
		return false, err
	}
	return f.ended()
}

// ended asks whether the container runs: the daemon ends what it gives also when it ends itself.
func (f *follower) ended() (bool, error) {
	body, status, err := f.get("/containers/"+f.id+"/json", "Connection: close\r\n")
	if err != nil {
		return false, err
	}
	defer func() { _ = body.Close() }() // it was read
	if status == 404 {
		return true, nil
	}
	text, err := io.ReadAll(io.LimitReader(body, 4<<20))
	return status == 200 && err == nil && strings.Contains(string(text), `"Running":false`), err
}

// copyPlain passes on what comes by a terminal, which has no frames. What was read last is known by the clock alone.
func (f *follower) copyPlain(r io.Reader) error {
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			f.read += int64(n)
			f.last = time.Now().UTC().Format(time.RFC3339Nano)
			if _, err := f.out.Write(buf[:n]); err != nil {
				return &writeError{err}
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// maxFrame bounds what one frame may have: the daemon cuts lines long before; bytes.
const maxFrame = 4 << 20

// copyFrames passes on frames: eight bytes that say which stream and how much, then a time, a blank, and what was
// written then.
func (f *follower) copyFrames(r io.Reader) error {
	again := f.last
	skip := f.same
	var head [8]byte
	for {
		if _, err := io.ReadFull(r, head[:]); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		size := binary.BigEndian.Uint32(head[4:])
		if size > maxFrame {
			return errors.New("a frame is too large")
		}
		frame := make([]byte, size)
		if _, err := io.ReadFull(r, frame); err != nil {
			return err
		}
		at, text, found := strings.Cut(string(frame), " ")
		if !found {
			at, text = "", string(frame)
		}
		switch {
		case at != "" && at < again:
			continue
		case at != "" && at == again && skip > 0:
			skip--
			continue
		}
		if at == f.last {
			f.same++
		} else {
			f.last, f.same = at, 1
		}
		to := f.out
		if head[0] == 2 {
			to = f.err
		}
		f.read += int64(size)
		if _, err := io.WriteString(to, text); err != nil {
			return &writeError{err}
		}
	}
}

// unixTime turns a time into what the daemon takes as since.
func unixTime(at string) (string, error) {
	t, err := time.Parse(time.RFC3339Nano, at)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d.%09d", t.Unix(), t.Nanosecond()), nil
}

// get asks the daemon. A whole HTTP library would make every helper twice as large.
func (f *follower) get(path, header string) (io.ReadCloser, int, error) {
	conn, err := dial(f.socket)
	if err != nil {
		return nil, 0, err
	}
	fail := func(err error) (io.ReadCloser, int, error) { return nil, 0, errors.Join(err, conn.Close()) }
	request := "GET /v" + f.version + path + " HTTP/1.1\r\nHost: docker\r\n" + header + "\r\n"
	if _, err := io.WriteString(conn, request); err != nil {
		return fail(err)
	}
	r := bufio.NewReader(conn)
	line, err := r.ReadString('\n')
	if err != nil {
		return fail(err)
	}
	fields := strings.Fields(line)
	if len(fields) < 2 {
		return fail(errors.New("no answer of HTTP"))
	}
	status, err := strconv.Atoi(fields[1])
	if err != nil {
		return fail(err)
	}
	var body io.Reader = r
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return fail(err)
		}
		line = strings.ToLower(strings.TrimSpace(line))
		if line == "" {
			break
		}
		if length, ok := strings.CutPrefix(line, "content-length:"); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(length), 10, 64)
			if err != nil {
				return fail(err)
			}
			body = io.LimitReader(r, n)
		}
		if line == "transfer-encoding: chunked" {
			body = &chunks{r: r}
		}
	}
	return &answer{body, conn}, status, nil
}

// dial connects with a socket, without the library that could connect with anything.
func dial(path string) (*os.File, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), path), nil
}

type answer struct {
	io.Reader
	conn *os.File
}

func (a *answer) Close() error { return a.conn.Close() }

// chunks reads a body of which each part says how long it is. One that stops in its middle is an error.
type chunks struct {
	r    *bufio.Reader
	left int64
	over bool
}

func (c *chunks) Read(p []byte) (int, error) {
	if c.over {
		return 0, io.EOF
	}
	if c.left == 0 {
		line, err := c.r.ReadString('\n')
		if err != nil {
			return 0, io.ErrUnexpectedEOF
		}
		size, _, _ := strings.Cut(strings.TrimSpace(line), ";")
		if c.left, err = strconv.ParseInt(size, 16, 64); err != nil {
			return 0, err
		}
		if c.left == 0 {
			c.over = true
			return 0, io.EOF
		}
	}
	n, err := c.r.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err == nil && c.left == 0 {
		if _, err = c.r.Discard(2); err != nil {
			err = io.ErrUnexpectedEOF
		}
	}
	return n, err
}
