// Package hostile owns what a task tries that wants out of its sandbox or more than its share: each attempt with what
// the kernel or Berth answers. Its program makes them within a task of driver exec; tests of the whole program and of
// the shim run it and hold every answer.
package hostile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Allowed is the answer to an attempt that nothing stood against.
const Allowed = "allowed"

// Bounded is how the answer to an attempt begins that came to an end at the task's limit.
const Bounded = "bounded"

// Attempt is one thing that a task tries.
type Attempt struct {
	// Name is unique, and says what is tried.
	Name string
	// Want are the answers that the attempt may have: names of errors, or words of its own. Several, where user, kernel
	// or the kind of control groups decide who refuses first.
	Want []string
	// Try makes it; nil: a test makes it from outside, by what it lets a task do.
	Try func() string
}

// Site is what a task of an attacker could know of its node.
type Site struct {
	// Data is the agent's data_dir, Socket and Port where its API listens.
	Data, Socket string
	Port         int
	// Peer is a socket without a file at which somebody of the node listens.
	Peer string
	// Victim is the id of another alloc of the node, PID a process of it, as the node counts.
	Victim string
	PID    int
	// Disk is the device of the data_dir.
	Disk uint64
}

// Within are the attempts of the program, in their order.
func Within(s Site) []Attempt {
	first := []Attempt{{"file: descriptors that a program of the node left open", []string{"none"}, inherited}}
	return slices.Concat(first, Calls(), files(s), devices(s), groups(), processes(s), network(s), excesses())
}

// Outside are the attempts that a test makes with tasks of its own.
func Outside() []Attempt {
	return []Attempt{
		{Name: "API: read a file of the node by a link in the task's directory", Want: []string{"403"}},
		{Name: "API: read the task's secrets by a link", Want: []string{"403"}},
		{Name: "API: read the task's secrets", Want: []string{"403"}},
		{Name: "API: read the data_dir by dots", Want: []string{"404"}},
		{Name: "API: read a pipe that nobody writes to", Want: []string{"400"}},
		{Name: "API: list the node's root by a link", Want: []string{"403"}},
		{
			Name: "API: read through a directory that is exchanged for a link to the node's, over and over",
			Want: []string{"its own alone"},
		},
		{Name: "session: look at its process from its birth on, for what is the node's", Want: []string{"nothing"}},
		{
			Name: "session: put something else where terminals are opened",
			Want: []string{"the task's terminal", "refused"},
		},
		{Name: "API: list a directory whose names are no text", Want: []string{"listed"}},
		{Name: "template: write past the task's directory by a link laid between starts", Want: []string{"refused"}},
		{Name: "logs: write more than the job's share", Want: []string{"dropped"}},
		{Name: "memory: take more than the limit", Want: []string{"OOM Killed"}},
		{Name: "memory: take more than the limit in files without a name", Want: []string{"OOM Killed"}},
		{Name: "memory: take more than the limit in buffers of TCP", Want: []string{Bounded}},
		{Name: "memory: take more than the limit in buffers of UDP", Want: []string{Bounded}},
		{Name: "disk: write more than the group asks for", Want: []string{"stopped"}},
		{Name: "disk: make files without content", Want: []string{"stopped"}},
		{Name: "disk: write below names that are no text", Want: []string{"stopped"}},
		{Name: "disk: write to a file that was removed", Want: []string{"stopped"}},
		{Name: "disk: have directories gone when they are looked at", Want: []string{"stopped"}},
		{Name: "processes: kill everybody", Want: []string{"its own alone"}},
	}
}

// Main is the program within a task: it makes all attempts, or the one that is named, and writes the answers.
func Main(args []string, out io.Writer) error {
	if len(args) == 0 {
		return errors.New("say what to try: attempts SITE, or one of the excesses")
	}
	if act, ok := acts[args[0]]; ok {
		return act()
	}
	if args[0] != "attempts" || len(args) != 2 {
		return fmt.Errorf("unknown arguments %q", args)
	}
	var s Site
	if err := json.Unmarshal([]byte(args[1]), &s); err != nil {
		return err
	}
	return Report(Within(s), out)
}

// Report makes attempts, and writes a line for each.
func Report(all []Attempt, out io.Writer) error {
	for _, a := range all {
		if _, err := fmt.Fprintf(out, "%s\t%s\n", a.Name, a.Try()); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintln(out, End)
	return err
}

// End is the last line of a report.
const End = "all attempts made"

// Answers reads a report; false: it has not come to its end.
func Answers(report string) (map[string]string, bool) {
	out := map[string]string{}
	for line := range strings.Lines(report) {
		if name, answer, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t"); ok {
			out[name] = answer
		}
	}
	return out, strings.HasSuffix(report, End+"\n")
}

// answer names the error that an attempt had.
func answer(err error) string {
	if err == nil {
		return Allowed
	}
	if e, ok := errors.AsType[unix.Errno](err); ok {
		return name(e)
	}
	return err.Error()
}

func name(e unix.Errno) string {
	if e == 0 {
		return Allowed
	}
	return unix.ErrnoName(e)
}
