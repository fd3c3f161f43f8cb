// Package audit owns the record of who did what by the HTTP API: a file of lines, each a JSON object, that is written
// before what it tells of is done or answered. What is refused to callers whom nobody knows has a file of its own:
// however much they ask for, the record of what was done stays. httpapi keeps it, and the agent opens it.
package audit

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/base/logkey"
)

// Config says where the record is, and what is in it.
type Config struct {
	Path     string
	MaxBytes int64 // of one file
	Files    int   // that were full, and are kept beside the one that is written
	Reads    bool  // what changes nothing and is answered is recorded, too
}

// Log is the record. Nil is none: everything is answered, and nothing is written.
type Log struct {
	cfg Config
	say *slog.Logger
	// strangers has what is refused to them; nil: the record is no file, and keeps nothing that they could end.
	strangers *Log
	reserve   int64 // of its disk, beyond what is written; 0: none, as of what strangers are refused

	mu    sync.Mutex
	file  *os.File
	is    os.FileInfo
	size  int64
	aside int64 // how far the file has the blocks for what is written
	torn  bool  // the last line was not written whole
	bare  bool  // it was said that there is no reserve
}

// Open opens the record, and makes its files and directory where they are missing. What is there stays.
func Open(cfg Config, say *slog.Logger) (*Log, error) {
	l, err := begun(cfg, say, min(reserve, cfg.MaxBytes))
	if err != nil || !l.is.Mode().IsRegular() {
		return l, err
	}
	cfg.Path = Strangers(cfg.Path)
	cfg.Files = min(cfg.Files, 1)
	if l.strangers, err = begun(cfg, say, 0); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// Strangers is where that is which is refused to callers whom nobody knows, beside a record: audit.log has
// audit.strangers.log.
func Strangers(path string) string {
	ext := filepath.Ext(path)
	return strings.TrimSuffix(path, ext) + ".strangers" + ext
}

func begun(cfg Config, say *slog.Logger, reserve int64) (*Log, error) {
	l := &Log{cfg: cfg, say: say, reserve: reserve}
	if err := os.MkdirAll(filepath.Dir(cfg.Path), 0o700); err != nil {
		return nil, unwritten(err, cfg.Path)
	}
	if err := l.open(); err != nil {
		return nil, unwritten(err, cfg.Path)
	}
	return l, nil
}

// Check tells whether there is a record, and refuses one that Open would refuse. It changes nothing.
func Check(cfg Config) (there bool, err error) {
	f, err := os.OpenFile(cfg.Path, flags, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return true, unwritten(err, cfg.Path)
	}
	is, err := f.Stat()
	if err == nil && is.Mode().IsRegular() {
		err = f.Chmod(is.Mode().Perm()) // as it is: whose it is not may not
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return true, unwritten(err, cfg.Path)
	}
	return true, nil
}

// Close ends the record.
func (l *Log) Close() error {
	if l == nil {
		return nil
	}
	return errors.Join(l.strangers.Close(), l.file.Close())
}

// ofStrangers is the file of what is refused to them.
func (l *Log) ofStrangers() *Log {
	if l.strangers == nil {
		return l
	}
	return l.strangers
}

// unwritten says that the record cannot be written, and what is to be done.
func unwritten(err error, path string) error {
	var at *os.PathError // its text would repeat the path
	if errors.As(err, &at) {
		err = at.Err
	}
	var across *os.LinkError
	if errors.As(err, &across) {
		err = across.Err
	}
	hint := "make the file writable, or name another one with audit { path = … }"
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		hint = "make room on its disk"
	}
	return fault.WithHint(fault.Wrap(err, fault.Internal, "write", "the audit log "+path), hint)
}

// flags open the file as the kernel knows it: a symbolic link would let others choose what is written.
const flags = os.O_RDWR | os.O_APPEND | unix.O_NOFOLLOW | unix.O_CLOEXEC

func (l *Log) open() error {
	f, err := os.OpenFile(l.cfg.Path, flags|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	is, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	torn := false
	if is.Mode().IsRegular() {
		if err := f.Chmod(0o600); err != nil {
			return errors.Join(err, f.Close())
		}
		if torn, err = unfinished(f, is.Size()); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	l.file, l.is = f, is
	l.size, l.torn = is.Size(), torn
	l.aside = 0
	return l.setAside(0)
}

// unfinished tells that a file ends within a line, as an agent leaves it that died of a full disk.
func unfinished(f *os.File, size int64) (bool, error) {
	if size == 0 {
		return false, nil
	}
	var last [1]byte
	_, err := f.ReadAt(last[:], size-1)
	return last[0] != '\n', err
}

// write adds a line. It is with the kernel when write returns: it outlives the agent, and not each loss of power.
func (l *Log) write(line *Line) error {
	data, err := json.Marshal(line)
	if err != nil {
		return fault.Wrap(err, fault.Internal, "encode", "a line of the audit log")
	}
	data = append(plain(data), '\n')
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.ready(int64(len(data))); err != nil {
		return unwritten(err, l.cfg.Path)
	}
	if l.torn {
		data = append([]byte{'\n'}, data...)
	}
	if err := l.setAside(int64(len(data))); err != nil {
		return unwritten(err, l.cfg.Path)
	}
	n, err := l.file.Write(data)
	l.size += int64(n)
	if err != nil {
		l.torn = l.torn || n > 0
		return unwritten(err, l.cfg.Path)
	}
	l.torn = false
	return nil
}

// ready has the file at the path take so many bytes: anew if it was moved away, and as the next one if it is full.
func (l *Log) ready(n int64) error {
	if !l.is.Mode().IsRegular() {
		return nil
	}
	now, err := os.Lstat(l.cfg.Path)
	switch {
	case err != nil && !os.IsNotExist(err):
		return err
	case err != nil || !os.SameFile(now, l.is):
	case l.size+n <= l.cfg.MaxBytes || l.size == 0:
		return nil
	default:
		if made, err := l.makeNext(); err != nil || !made {
			return err
		}
		if err := l.shift(); err != nil {
			return err
		}
		// What was set aside for this one is the next one's now.
		if err := errors.Join(l.file.Truncate(l.size), os.Rename(l.cfg.Path+".next", l.cfg.Path)); err != nil {
			return err
		}
	}
	full := l.file
	if err := l.open(); err != nil {
		return err
	}
	return full.Close()
}

// shift makes room at the path: audit.log becomes audit.log.1, that audit.log.2, and the oldest goes.
func (l *Log) shift() error {
	for i := l.cfg.Files; i > 0; i-- {
		err := os.Rename(l.numbered(i-1), l.numbered(i))
		if err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	if l.cfg.Files == 0 {
		return os.Remove(l.cfg.Path)
	}
	return nil
}

func (l *Log) numbered(i int) string {
	if i == 0 {
		return l.cfg.Path
	}
	return l.cfg.Path + "." + strconv.Itoa(i)
}

// Handler records the requests to a handler.
func (l *Log) Handler(next http.Handler) http.Handler {
	if l == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := begin(l, r)
		aw := &writer{ResponseWriter: w, rec: rec}
		next.ServeHTTP(aw, r.WithContext(with(r.Context(), rec)))
		aw.finish(r.Context().Err() != nil)
	})
}

// lost says in the agent's log what could not be recorded.
func (l *Log) lost(line *Line, err error) {
	l.say.Error("a request is not in the audit log", "request", line.Request, "who", line.Who, "what",
		fmt.Sprint(line.What, " ", line.Object), logkey.Namespace, line.Namespace, logkey.Error, err)
}
