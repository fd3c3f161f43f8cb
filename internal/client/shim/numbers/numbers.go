// Package numbers owns which numbers of users the allocs of a node have, for user namespaces of their own. The launcher
// of shims imports it.
package numbers

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"berth/internal/base/durable"
	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/port/driver"
)

// Living tells whether anything of an alloc, by the name of its files, may still run.
type Living interface{ Lives(name string) bool }

// Book holds an alloc's numbers in a file beside its shim's socket. It is written before anything of the alloc runs
// with them, and removed where the socket is: when nothing of the alloc is left. So they are known whoever has died,
// and an orphan's are given to nobody.
type Book struct {
	dir    string
	living Living
	mu     sync.Mutex
}

// New opens the book in a directory.
func New(dir string, l Living) *Book { return &Book{dir: dir, living: l} }

const suffix = ".ids"

func (b *Book) file(name string) string { return filepath.Join(b.dir, name+suffix) }

// Take returns the first of the numbers of users that an alloc has, which it is given from the range when it has
// none. Two allocs never share one. fault.Exhausted: all are taken. The alloc is known by its name, and lives.
func (b *Book) Take(alloc, name string, r driver.IDRange) (uint32, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	first, ok, err := b.read(name)
	if err != nil || ok {
		return first, err
	}
	taken, err := b.taken()
	if err != nil {
		return 0, err
	}
	for i := range r.Allocs() {
		first := r.First + uint32(i)*driver.IDsPerAlloc
		if overlaps(taken, first) {
			continue
		}
		path := b.file(name)
		if err := durable.WriteFile(path, fmt.Appendf(nil, "%d\n", first), 0o600); err != nil {
			return 0, fault.Wrap(err, fault.Internal, "write", "numbers of users to "+path)
		}
		return first, nil
	}
	return 0, fault.WithHint(
		fault.New(fault.Exhausted, "give users to", "alloc "+ids.Short(alloc), fmt.Sprintf(
			"the node's range %d-%d has numbers for %d allocs, and all are taken by what runs or has not ended here",
			r.First, r.Last, r.Allocs())),
		"stop other jobs of the node, end its orphans, or widen user_namespaces in the agent's plugin \"exec\" block")
}

// overlaps reports whether any of an alloc's numbers is another's: the ranges of two configurations need not begin at
// the same numbers.
func overlaps(taken []uint32, first uint32) bool {
	for _, t := range taken {
		if int64(t)-int64(first) < driver.IDsPerAlloc && int64(first)-int64(t) < driver.IDsPerAlloc {
			return true
		}
	}
	return false
}

// taken are the numbers of all allocs. Those of one that does not live are given back.
func (b *Book) taken() ([]uint32, error) {
	files, err := filepath.Glob(b.file("*"))
	if err != nil {
		return nil, err
	}
	var out []uint32
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), suffix)
		if !b.living.Lives(name) {
			if err := os.Remove(f); err != nil && !errors.Is(err, os.ErrNotExist) {
				return nil, fault.Wrap(err, fault.Internal, "remove", f)
			}
			continue
		}
		first, ok, err := b.read(name)
		if err != nil {
			return nil, err
		}
		if ok {
			out = append(out, first)
		}
	}
	return out, nil
}

// read reads the numbers of an alloc; false: it has none. A file that says nothing is refused: what runs with its
// numbers cannot be told.
func (b *Book) read(name string) (first uint32, ok bool, err error) {
	path := b.file(name)
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return 0, false, nil
	}
	n, numErr := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 32)
	if err == nil && numErr == nil && n > 0 {
		return uint32(n), true, nil
	}
	return 0, false, fault.WithHint(
		fault.Wrap(errors.Join(err, numErr), fault.Internal, "read", "numbers of users from "+path),
		"the first of them stands in /proc/PID/uid_map of any task of the alloc: write it there, or stop the alloc "+
			"and remove the file")
}

// Drop gives back the numbers of an alloc of which nothing is left.
func (b *Book) Drop(name string) error {
	path := b.file(name)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fault.Wrap(err, fault.Internal, "remove", path)
	}
	return nil
}
