package allocdir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/port/hostfs"
	"berth/internal/wire"
)

// frameSize bounds the data of one frame, in bytes.
const frameSize = 64 << 10

// Events of a followed file, as clients of this API know them.
const (
	eventDeleted   = "file deleted"
	eventTruncated = "file truncated"
)

func sortFiles(files []wire.FileInfo) {
	slices.SortFunc(files, func(a, b wire.FileInfo) int { return strings.Compare(a.Name, b.Name) })
}

// ReadRequest says what to read of a file, or of a task's output.
type ReadRequest struct {
	Offset int64
	Limit  int64 // 0 and below: to the end
	End    bool  // Offset counts backwards from the end
	Follow bool
	// Dirs tells of what is followed.
	Dirs *hostfs.Directories
	// Done ends a following read when what was written until then has been delivered; nil: never.
	Done <-chan struct{}
}

// Read sends a file piece by piece.
func (d Dir) Read(ctx context.Context, path string, r ReadRequest, send func(*wire.StreamFrame) error) error {
	f, info, err := d.open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // opened for reading
	if !info.Mode().IsRegular() {
		return fault.New(fault.Invalid, "read", fmt.Sprintf("%q of allocation %q", path, d.id),
			"it is not a plain file")
	}
	t := &tail{
		name:    inside(path),
		f:       f,
		left:    r.Limit,
		bounded: r.Limit > 0,
		send:    send,
	}
	t.at = start(info.Size(), r)
	if !r.Follow {
		_, err := t.drain()
		return err
	}
	w := r.Dirs.Watch(parentOf(f))
	defer w.Close()
	for {
		if full, err := t.drain(); err != nil || full {
			return err
		}
		if gone, err := t.check(); err != nil || gone {
			return err
		}
		if err := await(ctx, w, r.Done); err != nil {
			return t.last(err)
		}
	}
}

func start(size int64, r ReadRequest) int64 {
	if r.End {
		return max(0, size-r.Offset)
	}
	return min(max(0, r.Offset), farthest)
}

// farthest is where no file has anything. What is added to it does not overflow: to read past the last place that there
// is would be a failure, and past the end it is none.
const farthest = 1 << 62

// parentOf names the directory of an open file through the kernel's own view, not through what a task may have renamed.
func parentOf(f *os.File) string {
	at, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
	if err != nil {
		return filepath.Dir(f.Name())
	}
	return filepath.Dir(at)
}

// tail reads one file from a position on.
type tail struct {
	name    string
	f       *os.File
	at      int64
	left    int64
	bounded bool
	send    func(*wire.StreamFrame) error
}

// drain sends all that is there and reports whether the limit is reached.
func (t *tail) drain() (full bool, err error) {
	buf := make([]byte, frameSize)
	for {
		left := int64(len(buf))
		if t.bounded {
			if t.left <= 0 {
				return true, nil
			}
			left = min(left, t.left)
		}
		n, err := t.f.ReadAt(buf[:left], t.at)
		if n > 0 {
			t.at += int64(n)
			t.left -= int64(n)
			if err := t.send(&wire.StreamFrame{Data: slices.Clone(buf[:n]), File: t.name, Offset: t.at}); err != nil {
				return false, err
			}
		}
		if errors.Is(err, io.EOF) {
			return t.bounded && t.left <= 0, nil
		}
		if err != nil {
			return false, classify(err, "read", t.name)
		}
	}
}

// check tells about a file that was truncated or deleted meanwhile.
func (t *tail) check() (gone bool, err error) {
	info, err := t.f.Stat()
	if err != nil {
		return false, classify(err, "read", t.name)
	}
	var st unix.Stat_t
	if unix.Fstat(int(t.f.Fd()), &st) == nil && st.Nlink == 0 {
		return true, t.send(&wire.StreamFrame{File: t.name, Offset: t.at, Event: eventDeleted})
	}
	if info.Size() < t.at {
		t.at = info.Size()
		return false, t.send(&wire.StreamFrame{File: t.name, Offset: t.at, Event: eventTruncated})
	}
	return false, nil
}

// last ends a following read well when what it followed is done.
func (t *tail) last(err error) error {
	if !errors.Is(err, errDone) {
		return err
	}
	_, err = t.drain()
	return err
}

// Log sends a task's output over its rotated files, oldest first.
func (d Dir) Log(ctx context.Context, task, stream string, r ReadRequest, send func(*wire.StreamFrame) error) error {
	if stream != "stdout" && stream != "stderr" {
		return fault.WithHint(
			fault.New(fault.Invalid, "read log of", fmt.Sprintf("task %q", task),
				fmt.Sprintf("there is no stream %q", stream)),
			"it is stdout or stderr")
	}
	prefix := task + "." + stream + "."
	var w *hostfs.Watch
	if r.Follow {
		w = r.Dirs.Watch(d.LogDir())
		defer w.Close()
	}
	l := &logTail{dir: d, prefix: prefix, send: send, next: -1}
	if err := l.begin(r); err != nil {
		return err
	}
	done := false
	for {
		if err := l.drain(); err != nil || !r.Follow || done {
			return err
		}
		switch err := await(ctx, w, r.Done); {
		case errors.Is(err, errDone):
			done = true
		case err != nil:
			return err
		}
	}
}

// logTail walks over the numbered files of one stream.
type logTail struct {
	dir    Dir
	prefix string
	next   int   // number of the file that is read; -1: the first that appears
	at     int64 // position in it
	send   func(*wire.StreamFrame) error
}

type logFile struct {
	number int
	size   int64
}

func (l *logTail) files() ([]logFile, error) {
	entries, err := os.ReadDir(l.dir.LogDir())
	if err != nil {
		return nil, classify(err, "list logs of", fmt.Sprintf("allocation %q", l.dir.id))
	}
	var out []logFile
	for _, e := range entries {
		suffix, ok := strings.CutPrefix(e.Name(), l.prefix)
		if !ok {
			continue
		}
		n, err := strconv.Atoi(suffix)
		info, statErr := e.Info()
		if err == nil && statErr == nil && info.Mode().IsRegular() {
			out = append(out, logFile{n, info.Size()})
		}
	}
	slices.SortFunc(out, func(a, b logFile) int { return a.number - b.number })
	return out, nil
}

// begin finds the file and the position that a request starts at.
func (l *logTail) begin(r ReadRequest) error {
	files, err := l.files()
	if err != nil {
		return err
	}
	total := int64(0)
	for _, f := range files {
		total += f.size
	}
	skip := start(total, r)
	for i, f := range files {
		if skip <= f.size || i == len(files)-1 {
			l.next, l.at = f.number, min(skip, f.size)
			return nil
		}
		skip -= f.size
	}
	return nil
}

// drain sends all that is there, going on to younger files.
func (l *logTail) drain() error {
	for {
		files, err := l.files()
		if err != nil {
			return err
		}
		i := slices.IndexFunc(files, func(f logFile) bool { return f.number >= l.next })
		if i < 0 {
			return nil
		}
		if files[i].number != l.next {
			l.next, l.at = files[i].number, 0
		}
		if err := l.send1(files[i].number); err != nil {
			return err
		}
		if i == len(files)-1 {
			return nil
		}
		l.next, l.at = files[i+1].number, 0
	}
}

func (l *logTail) send1(number int) error {
	path := filepath.Join(Shared, Logs, l.prefix+strconv.Itoa(number))
	f, _, err := l.dir.open(path)
	if fault.Has(err, fault.NotFound) {
		return nil // rotated away meanwhile
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // opened for reading
	t := &tail{name: path, f: f, at: l.at, send: l.send}
	_, err = t.drain()
	l.at = t.at
	return err
}
