package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"berth/api"
)

// mountSmall mounts an empty file system of n bytes.
func mountSmall(t *testing.T, n int) string {
	t.Helper()
	dir := tempDir(t)
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0700", n)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		endProcesses(t, dir)
		endMounts(t, dir)
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	return dir
}

// fill leaves n bytes free. What the agent writes at the same time may take them first: then it is filled anew.
func fill(t *testing.T, dir string, n uint64) string {
	t.Helper()
	path := filepath.Join(dir, "filler")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	for tries := 0; ; tries++ {
		var st syscall.Statfs_t
		if err := syscall.Statfs(dir, &st); err != nil {
			t.Fatal(err)
		}
		free := st.Bavail * uint64(st.Bsize)
		if free <= n {
			break
		}
		err := syscall.Fallocate(int(f.Fd()), 0, 0, int64(free-n))
		if err == nil {
			break
		}
		if !errors.Is(err, syscall.ENOSPC) || tries > 100 {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAFullDiskStopsNewWorkOnly(t *testing.T) {
	needRoot(t)
	data := mountSmall(t, 256<<20)
	a := start(t, "-dev", "-data-dir", data)
	stays := a.runJob(sleeper("stays", "raw_exec"), 1)[0].ID
	a.runJob(sleeper("goes", "raw_exec"), 1)
	pid := a.pidOf(stays)

	for i, left := range []uint64{16 << 20, 0} {
		t.Run(fmt.Sprintf("%d MiB left", left>>20), func(t *testing.T) {
			filler := fill(t, data, left)
			_, _, err := a.api.Jobs().Register(t.Context(),
				&api.JobRegisterRequest{Job: parseJob(t, sleeper("new", "raw_exec"))}, nil)
			var status *api.StatusError
			if !errors.As(err, &status) || status.Code < 500 {
				t.Errorf("new work on a full disk: %v", err)
			} else if !strings.Contains(err.Error(), "free") || !strings.Contains(err.Error(), data) {
				t.Errorf("the refusal does not say which disk is full: %v", err)
			}
			a.until("the log says it at level ERROR", func(context.Context) error {
				if n := refusals(a.logged()); n <= i {
					return fmt.Errorf("it does %d times, want %d", n, i+1)
				}
				return nil
			})
			if !alive(pid) {
				t.Error("a running task ended")
			}
			if left > 0 {
				if _, _, err := a.api.Jobs().Deregister(t.Context(), "goes", api.JobDeregisterOptions{},
					nil); err != nil {
					t.Errorf("releasing on a full disk: %v", err)
				}
				a.running("goes", 0)
			}
			if err := os.Remove(filler); err != nil {
				t.Fatal(err)
			}
			name := fmt.Sprintf("after%d", left)
			a.until("new work is taken again", func(ctx context.Context) error {
				_, _, err := a.api.Jobs().Register(ctx,
					&api.JobRegisterRequest{Job: parseJob(t, sleeper(name, "raw_exec"))}, nil)
				return err
			})
			a.running(name, 1)
		})
	}
	if got := a.running("stays", 1)[0].ID; got != stays || !alive(pid) {
		t.Error("the running alloc was replaced")
	}
	a.signal(syscall.SIGINT)
	if err := a.wait(time.Minute); err != nil {
		t.Error(err)
	}
	// What an agent has written is here in full when it has ended.
	if n := refusals(a.logged()); n != 2 {
		t.Errorf("the log says %d times that new work is refused, want once each time that the disk was full", n)
	}
}

// Given an agent in service, with its audit log beside its other state, when their disk is full to the last byte, then
// new work is refused and a job is stopped, which is recorded.
func TestAStopOnAFullDiskIsRecorded(t *testing.T) {
	needRoot(t)
	data := mountSmall(t, 256<<20)
	a := start(t, "-config", serviceConfig(t, data))
	a.runJob(sleeper("goes", "raw_exec"), 1)
	filler := fill(t, data, 0)
	if f, err := os.OpenFile(filepath.Join(data, "more"), os.O_CREATE|os.O_WRONLY, 0o600); err == nil {
		_, err = f.Write(make([]byte, 1<<20)) // what was freed since
		if cerr := f.Close(); cerr != nil || !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("the disk is not full: %v, %v", err, cerr)
		}
	}
	for range 30 { // so that the record has filled the block that it was in
		_, _, err := a.api.Jobs().Register(t.Context(),
			&api.JobRegisterRequest{Job: parseJob(t, sleeper("new", "raw_exec"))}, nil)
		const way = "stopping jobs, releasing volumes and renewing certificates still work"
		if err == nil || !strings.Contains(err.Error(), way) {
			t.Fatalf("new work on a full disk: %v", err)
		}
	}
	if _, _, err := a.api.Jobs().Deregister(t.Context(), "goes", api.JobDeregisterOptions{}, nil); err != nil {
		t.Errorf("a stop on a full disk: %v", err)
	} else {
		a.running("goes", 0)
	}
	record, err := os.ReadFile(filepath.Join(data, "audit", "audit.log"))
	if n := strings.Count(string(record), `"what":"DELETE /v1/job`); err != nil || n != 2 {
		t.Errorf("the stop has %d lines of the record (%v):\n%s", n, err, record)
	}
	for _, path := range []string{filler, filepath.Join(data, "more")} {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
	a.signal(syscall.SIGINT)
	if err := a.wait(time.Minute); err != nil {
		t.Fatal(err)
	}
	a = start(t, "-dev", "-data-dir", data) // which takes what it ran with it
	a.signal(syscall.SIGINT)
	if err := a.wait(time.Minute); err != nil {
		t.Error(err)
	}
}

// Given an agent in service, with its audit log beside its other state, and a job that has a volume, when their disk is
// full to the last byte, then the release of the volume goes its way when the job is stopped; what people say of its
// release and its detaching is answered for what it is, and recorded.
func TestReleasesAndDetachesOnAFullDiskAreRecorded(t *testing.T) {
	needRoot(t)
	data := mountSmall(t, 256<<20)
	a := start(t, "-config", serviceConfig(t, data))
	a.until("the plugin is healthy", func(ctx context.Context) error { return pluginHealthy(ctx, a.api) })
	v := &api.CSIVolume{
		ID:                   "v",
		Name:                 "v",
		PluginID:             "local-csi",
		RequestedCapacityMin: 16 << 20,
		RequestedCapacityMax: 32 << 20,
		RequestedCapabilities: []*api.CSIVolumeCapability{{
			AccessMode:     "single-node-writer",
			AttachmentMode: "file-system",
		}},
	}
	if _, _, err := a.api.Volumes().Create(t.Context(), v, nil); err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(sleeper("goes", "exec"), "    task ", `    volume "v" {
      type            = "csi"
      source          = "v"
      access_mode     = "single-node-writer"
      attachment_mode = "file-system"
    }
    task `, 1)
	text = strings.Replace(text, "      logs {", "      volume_mount {\n        volume      = \"v\"\n        "+
		"destination = \"/v\"\n      }\n      logs {", 1)
	node := a.runJob(text, 1)[0].NodeID
	filler := fill(t, data, 0)
	volumes := a.api.Volumes()
	if err := volumes.Release(t.Context(), "v", node, "a try", nil); err == nil ||
		!strings.Contains(err.Error(), "release") || strings.Contains(err.Error(), "audit") {
		t.Errorf("a release of what is in use, on a full disk: %v", err)
	}
	if err := volumes.Detach(t.Context(), "v", node, nil); err == nil || strings.Contains(err.Error(), "audit") {
		t.Errorf("a detach of what is in use, on a full disk: %v", err)
	}
	if _, _, err := a.api.Jobs().Deregister(t.Context(), "goes", api.JobDeregisterOptions{}, nil); err != nil {
		t.Errorf("a stop on a full disk: %v", err)
	}
	a.until("the volume is free", func(ctx context.Context) error {
		got, _, err := volumes.Get(ctx, "v", nil)
		if err == nil && len(got.WriteAllocs) > 0 {
			err = fmt.Errorf("%d allocations have it", len(got.WriteAllocs))
		}
		return err
	})
	if err := volumes.Deregister(t.Context(), "v", true, "it is a try", nil); err != nil {
		t.Errorf("a volume is forgotten on a full disk: %v", err)
	}
	record, err := os.ReadFile(filepath.Join(data, "audit", "audit.log"))
	for _, what := range []string{`/release`, `/detach`, `"what":"DELETE /v1/job`, `"what":"DELETE /v1/volume/csi/`} {
		if n := strings.Count(string(record), what); err != nil || n < 2 {
			t.Errorf("%s has %d lines of the record (%v):\n%s", what, n, err, record)
		}
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	a.signal(syscall.SIGINT)
	if err := a.wait(time.Minute); err != nil {
		t.Fatal(err)
	}
	a = start(t, "-dev", "-data-dir", data) // which takes what it ran with it
	a.signal(syscall.SIGINT)
	if err := a.wait(time.Minute); err != nil {
		t.Error(err)
	}
}

func refusals(log string) int { return strings.Count(log, "level=ERROR msg=\"new work is refused") }

func TestNoRoomToBegin(t *testing.T) {
	needRoot(t)
	data := mountSmall(t, 8<<20)
	a := command(t, "-dev", "-data-dir", data)
	a.begin()
	if err := a.wait(time.Minute); err == nil {
		t.Error("an agent began on a disk without space for its log")
	}
	for _, want := range []string{data, "MiB are free", "MiB are needed"} {
		if !strings.Contains(a.logged(), want) {
			t.Errorf("the refusal lacks %q:\n%s", want, a.logged())
		}
	}
}

// Given an agent that was started while others had filled most of its disk, when they free it, then a job that asks for
// as much is placed, without another start.
func TestWhatIsFreedAfterAStartIsOffered(t *testing.T) {
	needRoot(t)
	data := mountSmall(t, 512<<20)
	filler := fill(t, data, 120<<20)
	a := start(t, "-dev", "-data-dir", data)
	job := parseJob(t, sleeper("large", "raw_exec"))
	size := 200
	job.TaskGroups[0].EphemeralDisk = &api.EphemeralDisk{SizeMB: &size}
	if _, _, err := a.api.Jobs().Register(t.Context(), &api.JobRegisterRequest{Job: job}, nil); err != nil {
		t.Fatal(err)
	}
	a.until("it waits for the disk", func(ctx context.Context) error {
		evals, _, err := a.api.Jobs().Evaluations(ctx, "large", nil)
		if err == nil && !slices.ContainsFunc(evals, func(e *api.Evaluation) bool { return e.Status == "blocked" }) {
			err = errors.New("no evaluation is blocked")
		}
		return err
	})
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	a.running("large", 1)
	a.signal(syscall.SIGINT)
	if err := a.wait(time.Minute); err != nil {
		t.Error(err)
	}
}

// Given an agent that is started on a full disk, then its servers lead and its node is ready, so that what is held can
// be released.
func TestAnAgentStartsOnAFullDisk(t *testing.T) {
	needRoot(t)
	data := mountSmall(t, 256<<20)
	a := start(t, "-dev", "-data-dir", data)
	a.signal(syscall.SIGINT)
	if err := a.wait(time.Minute); err != nil {
		t.Fatal(err)
	}
	fill(t, data, 2<<20)
	a = start(t, "-dev", "-data-dir", data)
	a.signal(syscall.SIGINT)
	if err := a.wait(time.Minute); err != nil {
		t.Error(err)
	}
}

// Given an agent that is started on a full disk, and whose bundled plugin is new, then its registration is refused and
// said once; when there is room, it is registered without another start.
func TestTheBundledPluginIsRegisteredWhenThereIsRoom(t *testing.T) {
	needRoot(t)
	data := mountSmall(t, 256<<20)
	with := serviceConfig(t, data)
	text, err := os.ReadFile(with)
	if err != nil {
		t.Fatal(err)
	}
	without := filepath.Join(tempDir(t), "berth.hcl")
	old := strings.NewReplacer("local_csi = true", "local_csi = false", socketOf(with), socketOf(without))
	if err := os.WriteFile(without, []byte(old.Replace(string(text))), 0o600); err != nil {
		t.Fatal(err)
	}
	a := start(t, "-config", without)
	a.signal(syscall.SIGINT)
	if err := a.wait(time.Minute); err != nil {
		t.Fatal(err)
	}
	filler := fill(t, data, 2<<20)
	a = start(t, "-dev", "-data-dir", data) // which takes what it ran with it
	const refused = "the bundled storage plugin could not be registered; it is tried again"
	a.until("the refusal is said", func(context.Context) error {
		if !strings.Contains(a.logged(), refused) {
			return errors.New("it is not")
		}
		return nil
	})
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	a.until("the bundled plugin is healthy", func(ctx context.Context) error { return pluginHealthy(ctx, a.api) })
	a.signal(syscall.SIGINT)
	if err := a.wait(time.Minute); err != nil {
		t.Error(err)
	}
	if n := strings.Count(a.logged(), refused); n != 1 {
		t.Errorf("the refusal is said %d times", n)
	}
}
