package artifacts

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/internal/base/fault"
	"berth/internal/model/job"
	"berth/internal/port/fetch"
)

// Given a group that asks for so much of the disk, when a fetch begins, then it has no more than what the allocation
// leaves of that, where that is less than the agent's bounds and tasks are held to it.
func TestAFetchHasWhatIsLeftOfTheGroupsDisk(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		received, unpacked int64
		disk, taken        int
		free               bool
		wantR, wantU       int64
	}{
		{100 * mib, 200 * mib, 0, 0, false, 100 * mib, 200 * mib},
		{100 * mib, 200 * mib, 150, 0, false, 100 * mib, 150 * mib},
		{100 * mib, 200 * mib, 50, 0, false, 50 * mib, 50 * mib},
		{0, 0, 50, 0, false, 50 * mib, 50 * mib},
		{0, 200 * mib, 50, 0, true, 0, 200 * mib},
		{100 * mib, 200 * mib, 50, 8, false, 42 * mib, 42 * mib},
	} {
		x := with(t)
		if err := os.WriteFile(filepath.Join(x.AllocDir, "f"), make([]byte, c.taken*mib), 0o644); err != nil {
			t.Fatal(err)
		}
		x.hook.Bounds = fetch.Bounds{Received: c.received, Unpacked: c.unpacked}
		x.hook.UnlimitedDisks = c.free
		x.Group.EphemeralDisk = &job.EphemeralDisk{SizeMB: c.disk}
		got, err := x.hook.available(x.Task).bounds(t.Context(), x.hook.Bounds)
		const directories = 64 << 10
		if err != nil || got.Received > c.wantR || got.Received < c.wantR-directories ||
			got.Unpacked > c.wantU || got.Unpacked < c.wantU-directories {
			t.Errorf("%+v has %d and %d %v", c, got.Received, got.Unpacked, err)
		}
	}
}

// Given artifacts that each are less than the disk that their group asks for, when all of them together are more, then
// the task does not start, permanently, and nothing of them stays; when it asks for enough, it does.
func TestAllArtifactsTogetherHaveTheDiskOfTheGroup(t *testing.T) {
	s := serve(t, map[string]http.HandlerFunc{"/f": text(strings.Repeat("x", 700<<10))})
	for disk, fits := range map[int]bool{1: false, 2: true} {
		x := with(t, file(s.URL+"/f", "local/a"), file(s.URL+"/f", "alloc/b"))
		x.Group.EphemeralDisk = &job.EphemeralDisk{SizeMB: disk}
		err := x.start()
		if fits && err != nil || !fits && !fault.Has(err, fault.Invalid) {
			t.Errorf("of %d MiB it says %v", disk, err)
		}
		if !fits {
			x.nothingLeft()
		}
	}
}

// Given a fetch that goes on, when the allocation takes more than its disk meanwhile, whoever wrote it, then the fetch
// ends with that as the reason.
func TestAFetchEndsWhenTheDiskIsFull(t *testing.T) {
	x := with(t)
	s := serve(t, map[string]http.HandlerFunc{"/slow": func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "half")
		_ = http.NewResponseController(w).Flush()
		if err := os.WriteFile(filepath.Join(x.AllocDir, "f"), make([]byte, 2<<20), 0o644); err != nil {
			t.Error(err)
		}
		<-r.Context().Done()
	}})
	x.Task.Task.Artifacts = []*job.Artifact{file(s.URL+"/slow", "local/slow")}
	x.Group.EphemeralDisk = &job.EphemeralDisk{SizeMB: 1}
	err := x.start()
	if !fault.Has(err, fault.Invalid) || !strings.Contains(err.Error(), "ephemeral_disk allows 1") {
		t.Errorf("it ends with %v", err)
	}
	x.nothingLeft("alloc/f")
}
