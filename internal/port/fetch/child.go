package fetch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"runtime"
	"runtime/debug"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"berth/internal/base/artifact"
	"berth/internal/base/fault"
	"berth/internal/base/lifecycle"
	"berth/internal/base/privilege"
	"berth/internal/port/seccomp"
)

// memory bounds what the child and each of its programs may map to be written, in bytes.
const memory = 1 << 30

// work is the directory, beside Data, of what is on its way.
const work = "work"

// Main is the child: it bounds itself, reads one request, fetches, says what came of it, and ends. It returns the exit
// code. Its directory is where it was started; args are the program's, which say as which user and group it runs.
func Main(ctx context.Context, args []string, in io.Reader, out io.Writer) int {
	runtime.LockOSThread() // never unlocked: the kernel's promise to end us with the agent is the thread's
	said := json.NewEncoder(out)
	result, err := (*Result)(nil), confine(args)
	if err == nil {
		run := lifecycle.Isolated("fetch", func() (err error) {
			result, err = answer(ctx, in, func(p Progress) error { return said.Encode(&message{Progress: &p}) })
			return err
		}, func(e error) { err = e })
		if e := run(); e != nil {
			err = e
		}
	}
	m := &message{Result: result}
	if err != nil {
		m = &message{Kind: fault.KindOf(err), Problem: err.Error()}
	}
	if err := said.Encode(m); err != nil {
		return 1 // the agent is gone
	}
	return 0
}

// answer reads the request and serves it.
func answer(ctx context.Context, in io.Reader, progress func(Progress) error) (*Result, error) {
	data, err := io.ReadAll(in)
	if err != nil {
		return nil, err
	}
	var came sent
	if err := json.Unmarshal(data, &came); err != nil || came.Request == nil {
		return nil, fault.Wrap(err, fault.Internal, "read", "what to fetch")
	}
	r := came.received()
	if most := max(r.Bounds.Received, r.Bounds.Unpacked); r.Bounds.Received > 0 && r.Bounds.Unpacked > 0 {
		if err := bound(unix.RLIMIT_FSIZE, uint64(most)+1); err != nil {
			return nil, err
		}
	}
	if wall := r.wall(); wall > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, wall, late(r))
		defer cancel()
	}
	root, err := os.OpenRoot(".")
	if err != nil {
		return nil, fault.Wrap(err, fault.Internal, "open", "the directory of the fetch")
	}
	defer func() { _ = root.Close() }() // opened for paths only
	if err := root.Mkdir(work, 0o700); err != nil {
		return nil, fault.Wrap(err, fault.Internal, "make", "the directory of the fetch")
	}
	f := &fetching{Request: r, root: root, progress: progress}
	result, err := f.fetch(ctx)
	if err != nil && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return result, err
}

func late(r *Request) error {
	return fault.New(fault.Timeout, "", "", fmt.Sprintf("it takes longer than %s", r.wall()))
}

// confine takes from the process what fetching does not need. Files and capabilities were bounded by the agent.
func confine(args []string) error {
	runtime.GOMAXPROCS(1)
	if err := become(args); err != nil {
		return err
	}
	debug.SetMemoryLimit(memory / 4)
	filter, err := seccomp.Compile(nil, true)
	if err != nil {
		return err
	}
	err = errors.Join(bound(unix.RLIMIT_CORE, 0), bound(unix.RLIMIT_DATA, memory), bound(unix.RLIMIT_NOFILE, 1024))
	if err != nil {
		return err
	}
	unix.Umask(0o022)
	return privilege.Filter(filter)
}

// become gives up being root. The program may be one that no other user can start, so that this comes first here and
// not before.
func become(args []string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	var who [2]int
	if len(args) != len(who)+1 {
		return fault.New(fault.Internal, "start", "the fetch of an artifact", "nobody says as whom")
	}
	for i := range who {
		n, err := strconv.ParseUint(args[i+1], 10, 32)
		if err != nil {
			return fault.Wrap(err, fault.Internal, "start", "the fetch of an artifact")
		}
		who[i] = int(n)
	}
	err := errors.Join(syscall.Setgroups(nil), syscall.Setgid(who[1]), syscall.Setuid(who[0]))
	if err == nil { // a change of user takes this back; without a parent there is no input either
		err = unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0)
	}
	return fault.Wrap(err, fault.Internal, "give up", "the privileges of the fetch of an artifact")
}

func bound(resource int, most uint64) error {
	return fault.Wrap(unix.Setrlimit(resource, &unix.Rlimit{Cur: most, Max: most}), fault.Internal, "bound",
		"the fetch of an artifact")
}

// fetching is one artifact on its way.
type fetching struct {
	*Request
	root     *os.Root
	progress func(Progress) error
	unpacked budget
}

// fetch fetches, unpacks, and leaves in Data what is meant.
func (f *fetching) fetch(ctx context.Context) (*Result, error) {
	f.unpacked = budget{bytes: f.Bounds.Unpacked, files: f.Bounds.Files}
	if f.Source.Way == artifact.Git {
		tree, err := f.clone(ctx)
		if err != nil {
			return nil, err
		}
		return f.choose(tree)
	}
	packed, err := f.download(ctx)
	if err != nil {
		return nil, err
	}
	name, one := f.Source.Packed()
	switch {
	case f.Source.Archive == "":
		return f.leave(packed, f.Source.Name)
	case one:
		plain := path.Join(work, "plain")
		if err := f.expand(packed, plain); err != nil {
			return nil, err
		}
		return f.leave(plain, name)
	}
	tree := path.Join(work, "tree")
	if err := f.unpack(packed, tree); err != nil {
		return nil, err
	}
	return f.choose(tree)
}

// leave makes one file the result.
func (f *fetching) leave(at, name string) (*Result, error) {
	if err := f.root.Mkdir(Data, 0o700); err != nil {
		return nil, fault.Wrap(err, fault.Internal, "make", "the directory of the fetch")
	}
	err := f.root.Rename(at, path.Join(Data, name))
	return &Result{File: name}, fault.Wrap(err, fault.Internal, "move", name)
}

// choose makes the part of a tree that is meant the result.
func (f *fetching) choose(tree string) (*Result, error) {
	at := path.Join(tree, f.Source.Sub)
	st, err := f.root.Lstat(at)
	if err != nil {
		return nil, fault.New(fault.Invalid, "", "", fmt.Sprintf("there is no %q in it", f.Source.Sub))
	}
	if f.Mode == artifact.File && st.IsDir() {
		if at, st, err = f.only(at); err != nil {
			return nil, err
		}
	}
	switch {
	case st.IsDir():
		return &Result{}, fault.Wrap(f.root.Rename(at, Data), fault.Internal, "move", "what was unpacked")
	case f.Mode == artifact.Dir:
		return nil, fault.New(fault.Invalid, "", "", fmt.Sprintf("%q in it is no directory, and mode is \"dir\"",
			f.Source.Sub))
	}
	return f.leave(at, path.Base(at))
}

// only is the one file of a directory.
func (f *fetching) only(dir string) (string, os.FileInfo, error) {
	d, err := f.root.Open(dir)
	if err != nil {
		return "", nil, fault.Wrap(err, fault.Internal, "read", "what was unpacked")
	}
	names, err := d.Readdirnames(2)
	if cerr := d.Close(); err == nil || errors.Is(err, io.EOF) {
		err = cerr
	}
	if err != nil {
		return "", nil, fault.Wrap(err, fault.Internal, "read", "what was unpacked")
	}
	if len(names) == 1 {
		at := path.Join(dir, names[0])
		if st, err := f.root.Lstat(at); err == nil && st.Mode().IsRegular() {
			return at, st, nil
		}
	}
	return "", nil, fault.WithHint(
		fault.New(fault.Invalid, "", "", "mode is \"file\", and what was unpacked is not one file"),
		"name the file in it after //; or write mode = \"dir\"")
}

// trimmed is what a program said, for errors.
func trimmed(b []byte) string {
	const most = 500
	b = bytes.TrimSpace(b)
	if len(b) > most {
		b = append([]byte("…"), b[len(b)-most:]...)
	}
	return string(bytes.ToValidUTF8(bytes.ReplaceAll(b, []byte("\n"), []byte("; ")), nil))
}
