// Package task owns what the jobs of chaos run: a writer that keeps numbered lines on a volume and acknowledges each
// after it was synced, and a reader that checks them. Only chaos imports it.
package task

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Violations is the file in the lent directory where tasks write what must never be.
const Violations = "violations"

// Main is what the program does inside a job, as "write" or "check". It returns its exit status.
func Main(what string, args []string) int {
	flags := flag.NewFlagSet(what, flag.ContinueOnError)
	k := &keeper{}
	flags.StringVar(&k.dir, "data", "/data", "the volume")
	flags.StringVar(&k.acks, "acks", "/rig", "where lines are acknowledged, outside the volume")
	flags.StringVar(&k.name, "name", "", "of the lines, unique for a life of a volume")
	flags.BoolVar(&k.shared, "shared", false, "wait for an earlier writer of these lines, who is no fault")
	flags.DurationVar(&k.linger, "linger", 0, "how long to end takes")
	lines := flags.Int("lines", 0, "end after so many lines")
	least := flags.Uint64("least", 0, "what must be there at least")
	result := flags.String("result", "", "file to write the result to")
	if flags.Parse(args) != nil {
		return 2
	}
	var err error
	if what == "write" {
		err = k.write(*lines, *result)
	} else {
		err = k.check(*least, *result)
	}
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, err)
	var v violation
	if errors.As(err, &v) {
		f, err := os.OpenFile(filepath.Join(k.acks, Violations), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err == nil {
			fmt.Fprintf(f, "%s %s\n", time.Now().Format(time.RFC3339Nano), v)
			f.Close()
		}
	}
	return 1
}

// violation is what must never be.
type violation string

func (v violation) Error() string { return string(v) }

// keeper keeps numbered lines in a file of a volume and, outside of it, how many it has acknowledged.
type keeper struct {
	dir, acks, name string
	shared          bool
	linger          time.Duration
}

// write appends lines until it is told to stop. A line is acknowledged after it was synced. The lock is outside the
// volume, so that it also tells of a second writer who has the volume mounted by another device.
func (k *keeper) write(lines int, result string) error {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
	lock, err := os.OpenFile(filepath.Join(k.acks, k.name+".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := k.lock(lock); err != nil {
		return err
	}
	k.note("start")
	defer k.note("stop")
	acks, err := os.OpenFile(filepath.Join(k.acks, k.name+".ack"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer acks.Close()
	f, err := os.OpenFile(filepath.Join(k.dir, k.name), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	last, size, err := k.resume(f)
	if err != nil {
		return fmt.Errorf("alloc %s starts: %w", alloc(), err)
	}
	for n := 0; lines == 0 || n < lines; n++ {
		last++
		text := fmt.Sprintf("%d %s\n", last, alloc())
		if _, err := f.WriteAt([]byte(text), size); err != nil {
			return err
		}
		if err := f.Sync(); err != nil {
			return err
		}
		size += int64(len(text))
		if _, err := acks.WriteAt(fmt.Appendf(nil, "%020d\n", last), 0); err != nil {
			return err
		}
		select {
		case <-stop:
			time.Sleep(k.linger) // nothing ends it sooner but a kill
			return nil
		case <-time.After(15 * time.Millisecond):
		}
	}
	return os.WriteFile(result, fmt.Appendf(nil, "ok %d", last), 0o600)
}

// resume finds where an earlier writer has ended: the last number and the size.
func (k *keeper) resume(f *os.File) (last uint64, size int64, err error) {
	acked, err := Acknowledged(filepath.Join(k.acks, k.name+".ack"))
	if err != nil {
		return 0, 0, err
	}
	if last, size, err = verify(f.Name(), acked); err != nil {
		return 0, 0, err
	}
	if last == 0 { // the file itself must survive, too
		err = syncDir(k.dir)
	}
	return last, size, errors.Join(err, f.Truncate(size)) // a line that a crash cut was not acknowledged
}

// alloc is the one that this program runs in.
func alloc() string { return os.Getenv("NOMAD_ALLOC_ID") }

func (k *keeper) lock(f *os.File) error {
	how := unix.LOCK_EX
	if !k.shared {
		how |= unix.LOCK_NB
	}
	err := unix.Flock(int(f.Fd()), how)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return violation(fmt.Sprintf("a second writer of %s: alloc %s starts while another one writes", k.name,
			alloc()))
	}
	return err
}

// note records the starts and stops of writers, for whoever looks into a failure.
func (k *keeper) note(what string) {
	f, err := os.OpenFile(filepath.Join(k.acks, k.name+".story"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	defer f.Close()
	fmt.Fprintf(f, "%s %s %s\n", time.Now().Format(time.RFC3339Nano), what, alloc())
}

// check reads the lines of a volume and writes down whether they are whole.
func (k *keeper) check(least uint64, result string) error {
	last, _, err := verify(filepath.Join(k.dir, k.name), least)
	text := fmt.Sprintf("ok %d", last)
	if err != nil {
		text = err.Error()
	}
	if werr := os.WriteFile(result, []byte(text), 0o600); werr != nil {
		return werr
	}
	return err
}

// verify reads numbered lines: they begin at 1 and none is missing, and there are as many as were acknowledged. It
// returns the last number and the size of the whole lines.
func verify(path string, acked uint64) (last uint64, size int64, err error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) && acked > 0 {
		return 0, 0, violation(fmt.Sprintf("%s is lost: %d lines of it were acknowledged", path, acked))
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return 0, 0, err
	}
	for line := range bytes.Lines(data) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break
		}
		number, _, _ := strings.Cut(string(line), " ")
		n, err := strconv.ParseUint(number, 10, 64)
		if err != nil || n != last+1 {
			if last >= acked {
				break // after the last acknowledged line a crash may have left anything
			}
			return 0, 0, violation(fmt.Sprintf("%s has after line %d the line %.60q; %d were acknowledged", path, last,
				line, acked))
		}
		last = n
		size += int64(len(line))
	}
	if last < acked {
		return 0, 0, violation(fmt.Sprintf("%s ends with line %d; %d were acknowledged", path, last, acked))
	}
	return last, size, nil
}

// Acknowledged reads how many lines were acknowledged.
func Acknowledged(path string) (uint64, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) || err == nil && len(text) == 0 {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
