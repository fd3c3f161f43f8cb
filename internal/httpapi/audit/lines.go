package audit

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// maxLine is more than a line has, whatever it tells of.
const maxLine = 64 << 10

// maxNamed bounds how many lines of a file are named.
const maxNamed = 5

// Damaged reads every file of a record, and names the lines that tell of nothing: they were damaged, or an agent died
// while it wrote them. The record is gone on with behind them.
func Damaged(cfg Config) []error {
	var out []error
	for _, base := range []string{cfg.Path, Strangers(cfg.Path)} {
		l := &Log{cfg: Config{Path: base}}
		for i := cfg.Files; i >= 0; i-- {
			if err := readable(l.numbered(i)); err != nil {
				out = append(out, err)
			}
		}
	}
	return out
}

// readable says which lines of a file are none. What is no file, or is not there, has none.
func readable(path string) error {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return unread(err, path)
	}
	defer func() { _ = f.Close() }() // opened for reading
	if is, err := f.Stat(); err != nil || !is.Mode().IsRegular() {
		return err
	}
	r := bufio.NewReaderSize(f, maxLine)
	var named []string
	bad := 0
	for n := 1; ; n++ {
		text, err := line(r)
		if errors.Is(err, io.EOF) && len(text) == 0 {
			break
		}
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull) {
			return unread(err, path)
		}
		if err == nil && tells(text) {
			continue
		}
		if bad++; bad <= maxNamed {
			named = append(named, strconv.Itoa(n))
		}
	}
	if bad == 0 {
		return nil
	}
	if bad > maxNamed {
		named = append(named, "…")
	}
	return fmt.Errorf("%s: lines that tell of nothing: %d (%s); they are damaged, or were cut off when an agent died: "+
		"what they reported is not known, and the others are whole", path, bad, strings.Join(named, ", "))
}

// line is the next line without its end. One that is longer than any is read to its end: bufio.ErrBufferFull; one that
// ends with the file: io.EOF.
func line(r *bufio.Reader) ([]byte, error) {
	text, err := r.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return text, err
	}
	for {
		if _, more := r.ReadSlice('\n'); !errors.Is(more, bufio.ErrBufferFull) {
			if more != nil && !errors.Is(more, io.EOF) {
				return nil, more
			}
			return nil, err
		}
	}
}

// tells reports whether a text is a line of the record; members that later versions add are none of its matter.
func tells(text []byte) bool {
	var l Line
	return json.Unmarshal(text, &l) == nil && !l.Time.IsZero() && l.Stage != "" && l.What != ""
}

func unread(err error, path string) error { return fmt.Errorf("read the audit log %s: %w", path, err) }
