package client_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"berth/internal/model/alloc"
	"berth/internal/model/job"
)

// small is a file system of the node's alone, too small for what its store would set aside, and fill fills it. It goes
// with the rig's other mounts.
func (r *rig) small(bytes int) (fill func(left int) (free func())) {
	r.t.Helper()
	if os.Geteuid() != 0 {
		r.t.Skip("mounting a small file system needs root")
	}
	if err := syscall.Mount("tmpfs", r.dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0700", bytes)); err != nil {
		r.t.Fatal(err)
	}
	return func(left int) func() {
		r.t.Helper()
		var st syscall.Statfs_t
		if err := syscall.Statfs(r.dir, &st); err != nil {
			r.t.Fatal(err)
		}
		path := filepath.Join(r.dir, "filler")
		f, err := os.Create(path)
		if err != nil {
			r.t.Fatal(err)
		}
		if n := int64(st.Bavail)*st.Bsize - int64(left); n > 0 {
			if err := syscall.Fallocate(int(f.Fd()), 0, 0, n); err != nil {
				r.t.Fatal(err)
			}
		}
		if err := f.Close(); err != nil {
			r.t.Fatal(err)
		}
		return func() {
			if err := os.Remove(path); err != nil {
				r.t.Fatal(err)
			}
		}
	}
}

// Given a node whose disk is full, when the servers ask for the stop of an alloc, then its description and its events
// say that the node cannot write that down, on which file and why; its tasks run on. When there is space again it
// stops, and nothing says so any more.
func TestAStopOnAFullDiskNamesTheDisk(t *testing.T) {
	r := newRig(t)
	fill := r.small(4 << 20)
	r.start()
	j := service(task("web", nil))
	j.Constraints = []*job.Constraint{{RTarget: strings.Repeat("x", 512<<10)}} // its record takes more than is left
	id := r.servers.place(j)
	eventually(t, "it runs", func() bool { return r.servers.status(id) == alloc.ClientRunning })
	free := fill(64 << 10)
	r.servers.stop(id)
	store := filepath.Join(r.dir, "client", "client.db")
	says := func(text string) bool {
		return strings.Contains(text, "no space left on device") && strings.Contains(text, store)
	}
	eventually(t, "its description names the disk", func() bool { return says(r.servers.report(id).ClientDescription) })
	eventually(t, "an event does", func() bool {
		events := r.servers.report(id).TaskStates["web"].Events
		last := events[len(events)-1]
		return last.Type == alloc.EventNotWritten && says(last.DisplayMessage)
	})
	if got := r.mock.Alive(); len(got) != 1 {
		t.Errorf("alive: %v", got)
	}
	free()
	eventually(t, "it stops", func() bool { return r.servers.status(id) == alloc.ClientComplete })
	if got := r.servers.report(id).ClientDescription; says(got) {
		t.Errorf("it still says %q", got)
	}
}

// Given a node whose disk is full, when the servers place an alloc there, then its description and an event name the
// file and the reason, and how it stands says what it waits for; when there is space again it runs, and nothing says so
// any more.
func TestAPlacementOnAFullDiskNamesTheDisk(t *testing.T) {
	r := newRig(t)
	fill := r.small(4 << 20)
	r.start()
	first := r.servers.place(service(task("other", nil)))
	eventually(t, "the node takes work", func() bool { return r.servers.status(first) == alloc.ClientRunning })
	free := fill(64 << 10)
	j := service(task("web", nil))
	j.Constraints = []*job.Constraint{{RTarget: strings.Repeat("x", 512<<10)}} // its record takes more than is left
	id := r.servers.place(j)
	store := filepath.Join(r.dir, "client", "client.db")
	says := func(text string) bool {
		return strings.Contains(text, "no space left on device") && strings.Contains(text, store) &&
			strings.Contains(text, "free some room")
	}
	eventually(t, "it is reported", func() bool { return r.servers.status(id) == alloc.ClientPending })
	got := r.servers.report(id)
	if !says(got.ClientDescription) {
		t.Errorf("its description is %q", got.ClientDescription)
	}
	if s := alloc.Describe(got, j.TaskGroups[0]); !says(s.Waits) {
		t.Errorf("it stands as %+v", s)
	}
	events := got.TaskStates["web"].Events
	if len(events) != 1 || events[0].Type != alloc.EventNotWritten || !says(events[0].DisplayMessage) {
		t.Errorf("its events are %+v", events)
	}
	free()
	eventually(t, "it runs", func() bool { return r.servers.status(id) == alloc.ClientRunning })
	if got := r.servers.report(id).ClientDescription; says(got) {
		t.Errorf("it still says %q", got)
	}
}
