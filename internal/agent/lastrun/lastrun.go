// Package lastrun owns the record of a run of the agent, and the judgement of how the run before it ended: whether it
// died of something that it did itself, or somebody ended it. Only package agent imports it.
package lastrun

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"berth/internal/base/durable"
	"berth/internal/base/fault"
	"berth/internal/base/lifecycle"
	"berth/internal/base/logkey"
)

// Files in the directory.
const (
	recordFile = "run.json"
	reportFile = "crash.txt"   // what the runtime says as this run dies
	keptFile   = "crashed.txt" // what it said of the last run that did
	listFile   = "crashes.json"
)

// listed is how many runs that crashed are remembered: a mark of one before those accuses nobody any more.
const listed = 64

// maxHead is how much of a report is read for its first lines, in bytes.
const maxHead = 4096

// fromOutside are the signals that people and services send to have an end, with or without the stacks of a program.
var fromOutside = []string{"SIGQUIT:", "SIGABRT:"}

// record is what a run leaves that does not end in order.
type record struct {
	ID      string
	PID     int
	Command string // as the kernel calls the process
	Boot    string
	Kernel  uint64 // the last entry of the kernel's log before the run
}

// End is how the run before ended.
type End struct {
	// Run is its ID; empty: there was none, or it ended in order.
	Run string
	// Crash says of what it died, where it died of itself or the kernel ended it for its memory; empty: it did not, as
	// far as anybody can tell.
	Crash string
	// Report is the file with what the runtime said; empty: there is none.
	Report string
	// Crashes are the IDs of the runs that have crashed, this one among them, the oldest first: the last 64 of them.
	// Between a run and who asks of it there may have been others, that ended before they could ask.
	Crashes []string
}

// Run is this run of the agent.
type Run struct {
	id  string
	dir string
	out *os.File // nil: it could not be made
	log *slog.Logger
}

// Begin says how the run before ended, and begins to record this one in dir. What cannot be read or written, as on a
// full disk, is logged, and then nothing is known: an agent is not kept from its work by that.
func Begin(dir, boot string, kernel Kernel, log *slog.Logger) (*Run, End) {
	r := &Run{dir: dir, log: log}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		r.complain("how the last run of the agent ended is not known, and this one is not recorded", err)
		return r, End{}
	}
	killed, last, err := kernel.Killed()
	if err != nil {
		log.Debug("the log of the kernel cannot be read: whether it ends the agent for its memory is not known",
			logkey.Error, err)
	}
	end, err := r.before(boot, killed)
	if err != nil {
		r.complain("how the last run of the agent ended is not known", err)
	}
	if end.Crashes, err = r.crashes(end); err != nil {
		r.complain("which runs of the agent have crashed is not known, or not noted", err)
	}
	if err := r.begin(boot, last); err != nil {
		r.complain("this run of the agent is not recorded: were it to crash, nobody would know of what", err)
	}
	return r, end
}

// ID tells this run from all others of this node; empty: it is not recorded.
func (r *Run) ID() string { return r.id }

func (r *Run) complain(what string, err error) {
	r.log.Warn(what, logkey.Path, r.dir, logkey.Error, err)
}

func (r *Run) path(name string) string { return filepath.Join(r.dir, name) }

// before judges what the run before has left.
func (r *Run) before(boot string, killed []Kill) (End, error) {
	data, err := os.ReadFile(r.path(recordFile))
	if errors.Is(err, fs.ErrNotExist) {
		return End{}, nil
	}
	var was record
	if err == nil {
		err = json.Unmarshal(data, &was)
	}
	if err != nil {
		return End{}, fault.Wrap(err, fault.Invalid, "read", r.path(recordFile))
	}
	end := End{Run: was.ID}
	head, err := r.reported()
	if err != nil {
		return end, err
	}
	if head != "" {
		end.Report = r.path(keptFile)
		if err := os.Rename(r.path(reportFile), end.Report); err != nil {
			return end, fault.Wrap(err, fault.Internal, "keep", "the report of a crash")
		}
	}
	switch {
	case head != "" && !outside(head):
		end.Crash = head
	case was.Boot == boot && was.killed(killed):
		end.Crash = "the kernel ended it for want of memory"
	}
	return end, nil
}

// crashes are the runs that crashed, and notes the one that did so last.
func (r *Run) crashes(end End) ([]string, error) {
	data, err := os.ReadFile(r.path(listFile))
	var all []string
	if err == nil {
		err = json.Unmarshal(data, &all)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if end.Crash == "" {
		return all, err
	}
	all = append(all, end.Run)
	all = all[max(0, len(all)-listed):]
	if data, err = json.Marshal(all); err == nil {
		err = durable.WriteFile(r.path(listFile), data, 0o600)
	}
	return all, err
}

// reported is the first line of what the runtime said as the run before died.
func (r *Run) reported() (string, error) {
	f, err := os.Open(r.path(reportFile))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fault.Wrap(err, fault.Internal, "read", "the report of a crash")
	}
	defer func() { _ = f.Close() }() // it was only read
	head := make([]byte, maxHead)
	n, _ := f.Read(head) // nothing read is nothing reported
	line, _, _ := strings.Cut(strings.TrimSpace(string(head[:n])), "\n")
	if line == "runtime stack:" { // the error itself went to the log only
		line = "a fatal error of the runtime"
	}
	return line, nil
}

func outside(head string) bool {
	for _, s := range fromOutside {
		if strings.HasPrefix(head, s) {
			return true
		}
	}
	return false
}

func (w *record) killed(all []Kill) bool {
	for _, k := range all {
		if k.PID == w.PID && k.Command == w.Command && k.Entry > w.Kernel {
			return true
		}
	}
	return false
}

// begin records this run, and has the runtime write what it has to say as it dies.
func (r *Run) begin(boot string, last uint64) error {
	comm, err := os.ReadFile("/proc/self/comm")
	if err != nil {
		return err
	}
	rec := record{
		ID:      rand.Text(),
		PID:     os.Getpid(),
		Command: strings.TrimSpace(string(comm)),
		Boot:    boot,
		Kernel:  last,
	}
	data, err := json.Marshal(rec)
	if err != nil {
		return err
	}
	if r.out, err = os.OpenFile(r.path(reportFile), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600); err != nil {
		return err
	}
	if err := debug.SetCrashOutput(r.out, debug.CrashOptions{}); err != nil {
		return err
	}
	// Neither is to outlive a loss of power, which is another boot.
	if err := os.WriteFile(r.path(recordFile), data, 0o600); err != nil {
		return err
	}
	r.id = rec.ID
	return nil
}

// End records that the run ends, with the error that it ends with: a panic stays as the report of a crash.
func (r *Run) End(err error) {
	var p *lifecycle.PanicError
	if r.out == nil {
		return
	}
	if errors.As(err, &p) {
		_, failed := r.out.WriteString(p.Error() + "\n")
		if err := errors.Join(failed, r.out.Close()); err != nil {
			r.complain("of what this run of the agent died is not recorded", err)
		}
		return
	}
	failed := errors.Join(debug.SetCrashOutput(nil, debug.CrashOptions{}), r.out.Close())
	for _, name := range []string{reportFile, recordFile} {
		failed = errors.Join(failed, os.Remove(r.path(name)))
	}
	if failed != nil {
		r.complain("that this run of the agent ends in order is not recorded", failed)
	}
}
