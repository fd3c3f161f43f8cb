package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/api"
)

// loopDisk mounts a small file system of its own until all agents have ended, and returns where.
func loopDisk(t *testing.T, size string) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "b")
	must(t, err)
	image, at := filepath.Join(dir, "image"), filepath.Join(dir, "disk")
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	must(t, os.Mkdir(at, 0o755))
	for _, argv := range [][]string{
		{"truncate", "-s", size, image}, {"mkfs.ext4", "-q", "-m", "0", image}, {"mount", "-o", "loop", image, at},
	} {
		if out, err := exec.CommandContext(t.Context(), argv[0], argv[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", argv, err, out)
		}
	}
	t.Cleanup(func() { must(t, unix.Unmount(at, 0)) })
	return at
}

// gorge fills a disk to the last page, while others write to it.
func gorge(t *testing.T, ballast string) {
	t.Helper()
	f, err := os.Create(ballast)
	must(t, err)
	defer f.Close()
	for at, n := int64(0), int64(64<<20); n >= 4<<10; {
		switch err := unix.Fallocate(int(f.Fd()), 0, at, n); {
		case errors.Is(err, unix.ENOSPC):
			n /= 2
		case err != nil:
			t.Fatal(err)
		default:
			at += n
		}
	}
}

// scribe writes variables, the same ones over and over, by whichever of some agents answers.
type scribe struct {
	t    *testing.T
	by   []*machine
	end  context.CancelFunc
	done chan struct{}

	mu      sync.Mutex
	count   int               // of what was acknowledged
	last    string            // the path of the last one
	newest  map[string]uint64 // what was acknowledged last for each
	longest time.Duration     // between two acknowledgements
}

const (
	scribed = 100 // variables
	// bulk is what each of them has: sixteen take a MiB of the log.
	bulk = 60 << 10
	// scribePause keeps the log from filling the disk by itself.
	scribePause = 20 * time.Millisecond
)

func scribes(t *testing.T, by ...*machine) *scribe {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	s := &scribe{
		t:      t,
		by:     by,
		end:    cancel,
		done:   make(chan struct{}),
		newest: map[string]uint64{},
	}
	t.Cleanup(cancel)
	go s.write(ctx)
	return s
}

func (s *scribe) write(ctx context.Context) {
	defer close(s.done)
	last := time.Now()
	items := map[string]string{"bulk": strings.Repeat("0", bulk)}
	for n, asked := uint64(1), 0; ctx.Err() == nil; {
		items["n"] = strconv.FormatUint(n, 10)
		v := &api.Variable{Path: fmt.Sprintf("v-%d", n%scribed), Items: items}
		// It runs out where a server answers nothing: then the next is asked.
		try, cancel := context.WithTimeout(ctx, 2*time.Second)
		_, err := s.by[asked%len(s.by)].api.Variables().Put(try, v, nil, nil)
		cancel()
		if err != nil {
			asked++
			select {
			case <-time.After(50 * time.Millisecond):
			case <-ctx.Done():
			}
			continue
		}
		s.mu.Lock()
		s.count++
		s.last = v.Path
		s.newest[v.Path] = n
		s.longest = max(s.longest, time.Since(last))
		s.mu.Unlock()
		last = time.Now()
		n++
		select {
		case <-time.After(scribePause):
		case <-ctx.Done():
		}
	}
}

// acknowledged is how many writes were so far, and what the last was.
func (s *scribe) acknowledged() (count int, path string, n uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count, s.last, s.newest[s.last]
}

// writes waits until so many more are acknowledged.
func (s *scribe) writes(more int) {
	s.t.Helper()
	from, _, _ := s.acknowledged()
	s.by[0].eventually(fmt.Sprintf("%d more variables to be written", more), func() bool {
		count, _, _ := s.acknowledged()
		return count >= from+more
	})
}

// has is what an agent says that a variable is.
func (s *scribe) has(ctx context.Context, m *machine, path string, o *api.QueryOptions) (uint64, error) {
	v, _, err := m.api.Variables().Get(ctx, path, o)
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(v.Items["n"], 10, 64)
}

// linear wants an agent to answer with what was acknowledged last before, or not at all.
func (s *scribe) linear(m *machine) {
	s.t.Helper()
	_, path, n := s.acknowledged()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	got, err := s.has(ctx, m, path, nil)
	switch {
	case api.IsNotFound(err), err == nil && got < n:
		s.t.Errorf("the full server answers with %d, and %d was acknowledged before: %v", got, n, err)
	case err != nil:
		s.t.Logf("the full server answers a read with %v", err)
	}
}

// over ends the writing and wants every server to have what was acknowledged.
func (s *scribe) over(all []*machine) {
	s.t.Helper()
	s.end()
	<-s.done
	s.t.Logf("%d writes were acknowledged, with %s between two at most", s.count, s.longest)
	for i, m := range all {
		for path, n := range s.newest {
			m.eventually(fmt.Sprintf("server %d to have %s as it was acknowledged", i+1, path), func() bool {
				got, err := s.has(s.t.Context(), m, path, &api.QueryOptions{Stale: true})
				return err == nil && got >= n
			})
		}
	}
}

// leadBy has a server of a number lead.
func leadBy(m *machine, i int) {
	m.t.Helper()
	name := fmt.Sprintf("s%d.global", i)
	m.eventually(name+" to lead", func() bool {
		h, err := m.api.Operator().AutopilotHealth(m.t.Context())
		if err == nil && h.Leader != name {
			_, _ = m.cli("operator", "raft", "transfer-leadership", "-peer-id", name) // it is asked again
		}
		return err == nil && h.Leader == name
	})
}

// errorsIn are the lines of an agent's log that are errors.
func (m *machine) errorsIn() (out []string) {
	for line := range strings.Lines(m.read(m.logPath())) {
		if strings.Contains(line, "level=ERROR") {
			out = append(out, line)
		}
	}
	return out
}

// TestClusterServerOnAFullDisk: given three servers, one of which has a small disk, when that becomes full while
// variables are written, then the two others go on, also under a new leader; the full one runs on, says in its log and
// in its health what is full and what to do, and answers no read with what is old. With room again it catches up by
// itself. When it leads as its disk becomes full, another one leads. No variable that was
// acknowledged is lost.
func TestClusterServerOnAFullDisk(t *testing.T) {
	long(t)
	disk := loopDisk(t, "256M")
	all := several(t, 3, filepath.Join(disk, "d"))
	full, ballast := all[2], filepath.Join(disk, "ballast")
	full.alarm = disk
	s := scribes(t, all[0], all[1])
	s.writes(20)
	leadBy(all[0], 1)
	gorge(t, ballast)
	s.writes(320)
	s.says(full, disk)
	s.linear(full)
	leadBy(all[0], 2)
	s.writes(50)
	s.says(full, disk)
	s.linear(full)
	must(t, os.Remove(ballast))
	all[0].voters(3, 0)
	s.writes(10)

	leadBy(all[0], 3)
	gorge(t, ballast)
	all[0].eventually("another one to lead", func() bool {
		h, err := all[0].api.Operator().AutopilotHealth(t.Context())
		return err == nil && h.Leader != "" && h.Leader != "s3.global"
	})
	s.writes(320)
	s.says(full, disk)
	s.linear(full)
	must(t, os.Remove(ballast))
	all[0].voters(3, 0)
	s.over(all)
	if n := len(full.errorsIn()); n > 12 {
		t.Errorf("the full server says %d errors:\n%s", n, strings.Join(full.errorsIn(), ""))
	}
}

// says wants a server whose disk is full to run, and to say that, where people look.
func (s *scribe) says(m *machine, disk string) {
	s.t.Helper()
	select {
	case err := <-m.done:
		m.cmd = nil
		s.t.Fatalf("the agent on the full disk has ended: %v\n%s", err, m.tail())
	default:
	}
	other := s.by[0]
	other.eventually("the health of the full server to say what is full", func() bool {
		out, _ := other.cli("operator", "autopilot", "health")
		return strings.Contains(out, disk) && strings.Contains(out, "free some")
	})
	if out := other.mustCLI("operator", "raft", "list-peers"); strings.Count(out, "true") != 3 {
		s.t.Errorf("the peers are\n%s", out)
	}
	m.eventually("its log to say what is full", func() bool { return m.logged("level=ERROR", disk, "free some") })
}
