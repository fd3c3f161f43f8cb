package audit

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"berth/internal/base/durable"
	"berth/internal/base/logkey"
)

// reserve is how much of its disk a record has for itself beyond what is written, if there was as much once: what
// cannot be recorded is not done, and what is done on a full disk are mostly stops and releases, which give something
// back.
const reserve = 4 << 20

// setAside keeps the reserve of the file that is written, before n bytes more. Where the disk has not as much, or its
// file system sets nothing aside, the record has what it has, and it is tried again with the next line.
func (l *Log) setAside(n int64) error {
	if l.reserve == 0 || !l.is.Mode().IsRegular() || l.size+n+l.reserve/2 <= l.aside {
		return nil
	}
	upTo := l.size + n + l.reserve
	lacks, err := durable.SetAside(l.file, upTo)
	switch {
	case err != nil:
		return err
	case lacks == nil:
		l.aside, l.bare = upTo, false
	case !l.bare && l.size+n > l.aside-l.reserve/4:
		l.bare = true
		l.say.Warn("the audit log has little or no space set aside for it: when its disk is full, changes are "+
			"refused, also stops and releases", logkey.Path, l.cfg.Path, logkey.Error, lacks, "hint",
			"make room on its disk, or name a file with audit { path = … } where there is")
	}
	return nil
}

// makeNext makes the file that is written when this one is full, with its reserve. Where the disk has no space for
// that, this one goes on, into its own reserve.
func (l *Log) makeNext() (made bool, err error) {
	path := l.cfg.Path + ".next"
	f, err := os.OpenFile(path, flags|os.O_CREATE, 0o600)
	if err != nil {
		return false, unlessFull(err)
	}
	lacks, err := durable.SetAside(f, max(l.reserve, 1))
	if err == nil {
		err = lacks
	}
	if errors.Is(err, unix.EOPNOTSUPP) {
		err = nil
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return false, errors.Join(unlessFull(err), os.Remove(path))
	}
	return true, nil
}

// unlessFull is nil when an error says that a disk is full.
func unlessFull(err error) error {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return nil
	}
	return err
}
