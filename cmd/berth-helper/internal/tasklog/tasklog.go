// Package tasklog owns the log files of a shim's tasks: it carries what a task prints from a pipe into numbered files
// (<task>.stdout.0, .1, …), starts a new one at the size limit and removes the oldest. The files of both outputs of a
// task are together no more than it may keep: for that many its disk was counted. A full disk never blocks the task:
// what cannot be written is dropped, counted, and said in the log as soon as it can be.
package tasklog

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/shimproto"
)

// Defaults of a log configuration that leaves them out.
const (
	defaultFiles = 10
	defaultBytes = 10 << 20
)

// Stream carries one of a task's two outputs.
type Stream struct {
	pipe  *os.File
	base  string // "<task>.stdout"
	dir   *os.File
	files int   // of both outputs together
	limit int64 // of one file, in bytes
	other *Stream
	trim  *sync.Mutex // while files are removed, of either output

	file  *os.File
	index int
	size  int64

	busy    atomic.Bool  // between reading from the pipe and writing to the file
	lost    atomic.Int64 // bytes, in all
	unsaid  int64        // bytes lost since the log last said so
	lastErr atomic.Pointer[string]
}

// Open prepares a task's two streams and returns them with the pipe ends for the child. Disabled logs have none: the
// child gets /dev/null.
func Open(task string, cfg shimproto.Logs) (streams []*Stream, ends []*os.File, err error) {
	if cfg.Disabled || cfg.Dir == "" {
		null, err := os.OpenFile("/dev/null", os.O_WRONLY, 0)
		return nil, []*os.File{null}, err
	}
	if err := ids.ValidTask(task); err != nil {
		return nil, nil, fault.Wrap(err, fault.Invalid, "open logs of", "task "+strconv.Quote(task))
	}
	defer func() {
		if err != nil {
			CloseAll(streams, ends)
		}
	}()
	for _, s := range pair(task, cfg) {
		end, err := s.open(cfg.Dir)
		streams = append(streams, s)
		if err != nil {
			return streams, ends,
				fault.WithHint(fault.Wrap(err, fault.Internal, "open", "log directory "+strconv.Quote(cfg.Dir)),
					"it must be a directory, not a symbolic link, and the log files regular files")
		}
		ends = append(ends, end)
	}
	return streams, ends, nil
}

// pair makes a task's two streams. Each writes at least one file: of a single one, each has half.
func pair(task string, cfg shimproto.Logs) []*Stream {
	files, limit := cfg.MaxFiles, cfg.MaxBytes
	if files <= 0 {
		files = defaultFiles
	}
	if limit <= 0 {
		limit = defaultBytes
	}
	if files == 1 {
		files, limit = 2, max(limit/2, 1)
	}
	trim := &sync.Mutex{}
	out := &Stream{base: task + ".stdout", files: files, limit: limit, trim: trim}
	out.other = &Stream{base: task + ".stderr", files: files, limit: limit, trim: trim}
	out.other.other = out
	return []*Stream{out, out.other}
}

// CloseAll gives back what Open made and nobody runs.
func CloseAll(streams []*Stream, ends []*os.File) {
	for _, s := range streams {
		s.close()
	}
	for _, f := range ends {
		_ = f.Close() // a pipe's end
	}
}

func (s *Stream) open(dir string) (end *os.File, err error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	s.dir = os.NewFile(uintptr(fd), dir)
	names, err := s.dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if n, ok := s.number(name); ok && n > s.index {
			s.index = n
		}
	}
	if err := s.openFile(s.index); err != nil && !full(err) {
		return nil, err
	}
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return nil, err
	}
	if err := unix.SetNonblock(p[0], true); err != nil {
		return nil, errors.Join(err, unix.Close(p[0]), unix.Close(p[1]))
	}
	s.pipe = os.NewFile(uintptr(p[0]), "output")
	return os.NewFile(uintptr(p[1]), "output"), nil
}

// full tells the failures that pass: the task starts, and its output is lost until there is room.
func full(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.EIO)
}

// number reads the number of one of this stream's files.
func (s *Stream) number(name string) (int, bool) {
	text, ok := strings.CutPrefix(name, s.base+".")
	n, err := strconv.Atoi(text)
	return n, ok && err == nil && n >= 0 && strconv.Itoa(n) == text
}

// openFile makes a numbered file the present one. Neither a link nor a FIFO put in its place is followed or waited for.
func (s *Stream) openFile(index int) error {
	flags := unix.O_WRONLY | unix.O_CREAT | unix.O_APPEND | unix.O_NOFOLLOW | unix.O_CLOEXEC | unix.O_NONBLOCK
	fd, err := unix.Openat(int(s.dir.Fd()), s.base+"."+strconv.Itoa(index), flags, 0o644)
	if err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return errors.Join(errors.New("the log file is not a regular file"), err, unix.Close(fd))
	}
	if s.file != nil {
		_ = s.file.Close() // every write to it was answered
	}
	s.file = os.NewFile(uintptr(fd), "log")
	s.index = index
	s.size = st.Size
	return nil
}

// buffers are shared by all streams of the shim: an idle task has none.
var buffers = sync.Pool{New: func() any { b := make([]byte, 32<<10); return &b }}

// Run carries output until every holder of the pipe's other end is gone, then closes the stream.
func (s *Stream) Run() error {
	defer s.close()
	raw, err := s.pipe.SyscallConn()
	if err != nil {
		return err
	}
	for {
		var readErr error
		eof := false
		err := raw.Read(func(fd uintptr) bool {
			buf := buffers.Get().(*[]byte)
			defer buffers.Put(buf)
			s.busy.Store(true)
			defer s.busy.Store(false)
			n, err := unix.Read(int(fd), *buf)
			switch {
			case errors.Is(err, unix.EAGAIN):
				return false
			case errors.Is(err, unix.EINTR):
			case err != nil:
				readErr = err
			case n == 0:
				eof = true
			default:
				s.write((*buf)[:n])
			}
			return true
		})
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil
		}
		if err := errors.Join(err, readErr); err != nil {
			return err
		}
		if eof {
			return nil
		}
	}
}

func (s *Stream) close() {
	s.sayLost()
	for _, f := range []*os.File{s.pipe, s.file, s.dir} {
		if f != nil {
			_ = f.Close() // nothing is buffered
		}
	}
}

// End ends Run although somebody still holds the pipe's other end: a process that left the task's cgroup may, for ever.
func (s *Stream) End() {
	_ = s.pipe.SetReadDeadline(time.Unix(1, 0)) // fails only when Run has ended
}

// Settle waits, for at most limit, until what was printed so far is in the files.
func (s *Stream) Settle(limit time.Duration) {
	raw, err := s.pipe.SyscallConn()
	if err != nil {
		return
	}
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(200 * time.Microsecond) {
		waiting := 0
		var failed error
		err := raw.Control(func(fd uintptr) { waiting, failed = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
		if err != nil || failed != nil || waiting == 0 && !s.busy.Load() {
			return
		}
	}
}

// Lost tells how many bytes could not be written and why the last of them.
func (s *Stream) Lost() (bytes int64, why string) {
	if p := s.lastErr.Load(); p != nil {
		why = *p
	}
	return s.lost.Load(), why
}

func (s *Stream) write(b []byte) {
	for len(b) > 0 {
		if s.size >= s.limit {
			if err := s.openFile(s.index + 1); err != nil {
				s.drop(len(b), err)
				return
			}
		}
		n := s.cut(b)
		if s.file == nil {
			if err := s.openFile(s.index); err != nil {
				s.drop(len(b), err)
				return
			}
		}
		if s.size == 0 {
			s.removeOld()
		}
		s.sayLost()
		done, err := s.file.Write(b[:n])
		s.size += int64(done)
		if err != nil {
			s.drop(len(b)-done, err)
			return
		}
		if b = b[n:]; len(b) > 0 {
			s.size = s.limit // the rest begins a file
		}
	}
}

// cut tells how much of b goes into the present file: whole lines where that is possible.
func (s *Stream) cut(b []byte) int {
	room := s.limit - s.size
	if int64(len(b)) <= room {
		return len(b)
	}
	if i := bytes.LastIndexByte(b[:room], '\n'); i >= 0 || s.size > 0 {
		return i + 1 // zero leaves the whole line to the next file
	}
	return int(room)
}

func (s *Stream) drop(n int, err error) {
	s.lost.Add(int64(n))
	s.unsaid += int64(n)
	text := err.Error()
	s.lastErr.Store(&text)
}

// sayLost writes into the log that output is missing here.
func (s *Stream) sayLost() {
	if s.unsaid == 0 || s.file == nil {
		return
	}
	_, why := s.Lost()
	line := "[berth: " + strconv.FormatInt(s.unsaid, 10) + " bytes of output were lost here: " + why + "]\n"
	n, err := io.WriteString(s.file, line)
	s.size += int64(n)
	if err == nil {
		s.unsaid = 0
	}
}

// removeOld removes the files that are too many now that the present one is written to: the oldest of the output that
// has more of them, so that what little the other printed stays.
func (s *Stream) removeOld() {
	s.trim.Lock()
	defer s.trim.Unlock()
	names, err := s.names()
	if err != nil {
		return // tried again at the next file
	}
	own, others := s.kept(names), s.other.kept(names)
	if len(others) == 1 && s.empty(others[0]) { // it has printed nothing
		others = nil
	}
	for len(own)+len(others) > s.files {
		from := &own
		if len(others) > len(own) {
			from = &others
		}
		if len(*from) < 2 {
			return
		}
		_ = unix.Unlinkat(int(s.dir.Fd()), (*from)[0], 0) // tried again at the next file
		*from = (*from)[1:]
	}
}

func (s *Stream) names() ([]string, error) {
	if _, err := s.dir.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	return s.dir.Readdirnames(-1)
}

func (s *Stream) empty(name string) bool {
	var st unix.Stat_t
	return unix.Fstatat(int(s.dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Size == 0
}

// kept are those of the names that are files of this stream, oldest first.
func (s *Stream) kept(names []string) []string {
	var out []string
	for _, name := range names {
		if _, ok := s.number(name); ok {
			out = append(out, name)
		}
	}
	slices.SortFunc(out, func(a, b string) int {
		x, _ := s.number(a)
		y, _ := s.number(b)
		return cmp.Compare(x, y)
	})
	return out
}
