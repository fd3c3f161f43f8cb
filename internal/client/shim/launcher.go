// Package shim owns the agent's side of task processes that outlive it: it starts one shim per alloc, talks to it over
// its socket, and cleans up after one that died. It implements driver.Launcher; the agent constructs it and hands it to
// the drivers.
package shim

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/cgroup"
	"berth/internal/client/shim/numbers"
	"berth/internal/client/shim/sharing"
	"berth/internal/port/driver"
)

// maxSocketPath is what fits into a socket's address with its final NUL.
const maxSocketPath = 107

// rootDir is an empty directory beside the sockets.
const rootDir = "root"

// DefaultSlice is the cgroup under which all allocs of a node lie.
const DefaultSlice = "berth.slice"

// Config of a Launcher.
type Config struct {
	// Dir holds the shims' sockets. It is made, for root only. Its path must be short: a socket's path has at most 107
	// bytes, 42 of which are an alloc's.
	Dir string
	// Program opens the helper program (helperbin.Open).
	Program func() (*os.File, error)
	// Slice is the cgroup of all allocs; empty: DefaultSlice.
	Slice string
	// Bundle describes an alloc for its shim to keep, so that whoever finds the shim knows what it runs without this
	// node's store (Held returns it); nil: nothing.
	Bundle func(ids.Alloc) []byte
	// Log receives what no caller can be answered; nil discards it.
	Log *slog.Logger
}

// Launcher starts processes in shims. It is safe for concurrent use, and holds no connection between calls.
type Launcher struct {
	cfg  Config
	tree *cgroup.Tree

	mu       sync.Mutex
	locks    map[string]*allocLock
	children map[string]*os.Process // shims that this process started, by alloc

	*sharing.Cpusets
	users   *numbers.Book
	probing sync.Mutex
	probed  *driver.IDRange // with which user namespaces were tried, well
}

var (
	_ driver.Launcher = (*Launcher)(nil)
	_ driver.Checker  = (*Launcher)(nil)
)

// New returns a launcher for the shims of a directory: those that earlier runs of the agent left are found there.
func New(cfg Config) (*Launcher, error) {
	if cfg.Slice == "" {
		cfg.Slice = DefaultSlice
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if !filepath.IsAbs(cfg.Dir) || len(cfg.Dir)+len("/")+36+len(".sock") > maxSocketPath {
		return nil, fault.WithHint(fault.New(fault.Invalid, "use", "shim directory "+strconv.Quote(cfg.Dir),
			"it must be absolute and at most "+strconv.Itoa(maxSocketPath-42)+
				" bytes long"), "choose a shorter data_dir")
	}
	if strings.ContainsAny(cfg.Slice, "/\x00") || cfg.Slice == "." || cfg.Slice == ".." {
		return nil, fault.New(fault.Invalid, "use", "cgroup slice "+strconv.Quote(cfg.Slice),
			"it must be one path segment")
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fault.Wrap(err, fault.Internal, "make", "shim directory "+strconv.Quote(cfg.Dir))
	}
	if err := os.Chmod(cfg.Dir, 0o700); err != nil {
		return nil, fault.Wrap(err, fault.Internal, "protect", "shim directory "+strconv.Quote(cfg.Dir))
	}
	// Every isolated task mounts its root over this one directory, each in its own mount namespace.
	if err := os.MkdirAll(filepath.Join(cfg.Dir, rootDir), 0o555); err != nil {
		return nil, fault.Wrap(err, fault.Internal, "make", "directory "+strconv.Quote(filepath.Join(cfg.Dir, rootDir)))
	}
	tree, err := cgroup.Discover()
	if err != nil {
		return nil, err
	}
	l := &Launcher{cfg: cfg, tree: tree, locks: map[string]*allocLock{}, children: map[string]*os.Process{}}
	l.users, l.Cpusets = numbers.New(cfg.Dir, living{l}), sharing.New(tree, cfg.Slice, cfg.Log)
	return l, nil
}

// Slice is the cgroup under which all allocs lie, as a path segment below the root of the hierarchy; empty if nothing
// is launched here.
func (l *Launcher) Slice() string {
	if l == nil {
		return ""
	}
	return l.cfg.Slice
}

// Check implements driver.Checker.
func (l *Launcher) Check(isolated bool) error {
	if os.Geteuid() != 0 {
		return fault.WithHint(fault.New(fault.Unsupported, "start", "tasks", "the agent is not root"),
			"run the agent as root")
	}
	f, err := l.cfg.Program()
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return fault.Wrap(err, fault.Internal, "close", "the helper program")
	}
	if !isolated {
		return nil
	}
	for _, c := range []string{"cpu", "memory"} {
		if !l.tree.Has(c) {
			return fault.WithHint(
				fault.New(fault.Unsupported, "limit", "tasks", "this node offers no cgroup controller for "+c),
				"boot with cgroup_enable="+c)
		}
	}
	fd, err := unix.OpenTree(unix.AT_FDCWD, "/proc", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return fault.WithHint(fault.Wrap(err, fault.Unsupported, "clone", "a mount"),
			"Linux 5.14 or later and CAP_SYS_ADMIN are needed")
	}
	return unix.Close(fd)
}

// stem names an alloc's files; it is itself a name of the alloc, and stays what it is.
func stem(alloc string) string { return filepath.Base(cgroup.AllocDir("", alloc)) }

func (l *Launcher) socket(alloc string) string { return filepath.Join(l.cfg.Dir, stem(alloc)+".sock") }

// allocLock serialises the start and the end of one alloc's shim.
type allocLock struct {
	slot  chan struct{}
	users int
}

func (l *Launcher) lock(ctx context.Context, alloc string) (unlock func(), err error) {
	alloc = stem(alloc)
	l.mu.Lock()
	a := l.locks[alloc]
	if a == nil {
		a = &allocLock{slot: make(chan struct{}, 1)}
		l.locks[alloc] = a
	}
	a.users++
	l.mu.Unlock()
	leave := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if a.users--; a.users == 0 {
			delete(l.locks, alloc)
		}
	}
	select {
	case a.slot <- struct{}{}:
		return func() { <-a.slot; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, fault.Wrap(ctx.Err(), fault.KindOf(ctx.Err()), "wait for", "the shim of alloc "+ids.Short(alloc))
	}
}

// AllocOf is the alloc that a control group of the unified hierarchy belongs to, or to a part of; empty: to none.
func (l *Launcher) AllocOf(group string) ids.Alloc {
	rest, ok := strings.CutPrefix(group, "/"+l.cfg.Slice+"/")
	if !ok {
		return ""
	}
	alloc, _, _ := strings.Cut(rest, "/")
	return ids.Alloc(alloc)
}
