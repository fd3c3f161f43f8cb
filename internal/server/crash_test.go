package server

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/port/raftlog"
	"berth/internal/wire"
)

// crashDir tells a child process of this test where its server lives.
const crashDir = "BERTH_TEST_CRASH_DIR"

// TestChildThatIsKilled is the victim of TestWhatWasAnsweredSurvivesKill: it registers jobs as fast as it can and
// prints each id once it was answered.
func TestChildThatIsKilled(t *testing.T) {
	dir := os.Getenv(crashDir)
	if dir == "" {
		t.Skip("it is run by TestWhatWasAnsweredSurvivesKill, in a process of its own")
	}
	s := New(Config{DataDir: dir, Dev: true,
		Raft: raftlog.Config{SegmentSize: 1 << 20, Reserve: 1 << 20, SnapshotThreshold: 200, TrailingLogs: 50}})
	go func() { _ = s.Run(context.Background(), Listeners{}) }()
	conn, err := s.Connect()
	if err != nil {
		t.Fatal(err)
	}
	var out sync.Mutex
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for n := 0; ; n++ {
				id := ids.Job("job-" + ids.New())
				if _, err := wire.JobRegister.Call(t.Context(), conn,
					&wire.JobRegisterRequest{Job: testJob(id)}); err != nil {
					return
				}
				out.Lock()
				fmt.Printf("answered %s\n", id)
				out.Unlock()
				if n%50 == 49 {
					_ = s.Snapshot(t.Context()) // so that kills fall into snapshots too
				}
			}
		})
	}
	wg.Wait()
}

func TestWhatWasAnsweredSurvivesKill(t *testing.T) {
	dir := t.TempDir()
	answered := map[ids.Job]bool{}
	lives := 6
	if testing.Short() {
		lives = 2
	}
	for range lives {
		for _, id := range runAndKill(t, dir, time.Duration(100+rand.IntN(400))*time.Millisecond) {
			answered[id] = true
		}
		s := start(t, Config{DataDir: dir, Dev: true})
		snap := s.Store().Snapshot()
		for id := range answered {
			if snap.Job(nil, ids.DefaultNamespace, id) == nil {
				t.Errorf("%s was answered and is gone", id)
			}
		}
		before := dump(t, settled(t, s.Store()))
		if err := s.stop(); err != nil {
			t.Fatal(err)
		}
		again := start(t, Config{DataDir: dir, Dev: true})
		if before, after := marked(t, before, again.Store()), dump(t, again.Store()); string(before) != string(after) {
			t.Error("reading the same log twice made two states")
		}
		if err := again.stop(); err != nil {
			t.Fatal(err)
		}
	}
	if len(answered) < lives {
		t.Fatalf("only %d jobs were ever answered", len(answered))
	}
	t.Logf("%d answers survived %d kills", len(answered), lives)
}

// runAndKill runs the child, kills it after a while of answering, and returns what it was answered.
func runAndKill(t *testing.T, dir string, after time.Duration) []ids.Job {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestChildThatIsKilled$", "-test.v")
	cmd.Env = append(os.Environ(), crashDir+"="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var got []ids.Job
	var bomb *time.Timer
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		id, ok := strings.CutPrefix(lines.Text(), "answered ")
		if !ok {
			continue
		}
		if got = append(got, ids.Job(id)); bomb == nil {
			bomb = time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
		}
	}
	if err := cmd.Wait(); err == nil {
		t.Fatal("the child ended by itself")
	}
	return got
}

func TestOnAFullDiskNewWorkIsRefusedAndJobsCanBeStopped(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting a small file system needs root")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=16m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	t.Run("story", func(t *testing.T) { // the server ends before the unmount
		s := start(t, Config{DataDir: filepath.Join(dir, "server"), Dev: true})
		call(t, s, wire.JobRegister, &wire.JobRegisterRequest{Job: testJob("old")})
		ballast := filepath.Join(dir, "ballast")
		if err := os.WriteFile(ballast, make([]byte, 14<<20), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := wire.JobRegister.Call(t.Context(), s.conn, &wire.JobRegisterRequest{Job: testJob("new")})
		if !fault.Has(err, fault.Exhausted) || !strings.Contains(err.Error(), dir) {
			t.Errorf("registering on a full disk: %v", err)
		}
		call(t, s, wire.JobDeregister, &wire.JobDeregisterRequest{Namespace: ids.DefaultNamespace, Job: "old"})
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
		call(t, s, wire.JobRegister, &wire.JobRegisterRequest{Job: testJob("new")})
	})
}
