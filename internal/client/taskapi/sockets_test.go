package taskapi_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"berth/internal/client/taskapi"
)

// serve answers every connection with one word.
func serve(ctx context.Context, l net.Listener) error {
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		_, _ = io.WriteString(c, "here")
		_ = c.Close()
	}
}

// ask connects as a task does that has made the directory its own.
func ask(t *testing.T, dir string) string {
	t.Helper()
	t.Chdir(dir)
	c, err := net.DialTimeout("unix", taskapi.Name, time.Second)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = c.Close() }() // it was read
	said, _ := io.ReadAll(c)
	return string(said)
}

// TestSocketsComeAndGoWithTheirTasks: in a directory whose path no socket could have, in the place of what lies there,
// also of a link of the task's; again after a restart of the agent; and the file is gone when the task is.
func TestSocketsComeAndGoWithTheirTasks(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("d", 120))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	precious := filepath.Join(t.TempDir(), "precious")
	if err := os.WriteFile(precious, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(precious, filepath.Join(dir, taskapi.Name)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		s := taskapi.New(serve, slog.New(slog.DiscardHandler))
		if there, err := s.Open(dir); err != nil || !there { // before Run, as at the start of an agent
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		if _, err := s.Open(dir); err != nil {
			t.Error(err)
		}
		if said := ask(t, dir); said != "here" {
			t.Errorf("the task hears %q", said)
		}
		info, err := os.Lstat(filepath.Join(dir, taskapi.Name))
		if err != nil || info.Mode() != os.ModeSocket|0o666 {
			t.Errorf("the socket is %v, %v", info, err)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if said := ask(t, dir); said == "here" {
			t.Error("it answers without an agent")
		}
		if _, err := os.Lstat(filepath.Join(dir, taskapi.Name)); err != nil {
			t.Errorf("the end of the agent took the file away: %v", err)
		}
	}
	if info, err := os.Stat(precious); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("what the link led to is %v, %v", info, err)
	}
	s := taskapi.New(serve, slog.New(slog.DiscardHandler))
	if err := s.Close(dir); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(filepath.Join(dir, taskapi.Name)); !os.IsNotExist(err) {
		t.Errorf("the task is gone and its socket is not: %v", err)
	}
	if err := s.Close(filepath.Join(dir, "gone")); err != nil {
		t.Errorf("closing what is gone: %v", err)
	}
}

// TestNothingIsLeftOfAClosedSocket: whoever takes away what a socket lies in finds it unused: that it is closed means
// that its connections are, too; and at the end of an agent of which nothing is to be left none is opened any more.
func TestNothingIsLeftOfAClosedSocket(t *testing.T) {
	var answering atomic.Int32
	slow := func(_ context.Context, l net.Listener) error {
		answering.Add(1)
		defer answering.Add(-1)
		_, err := l.Accept()
		time.Sleep(20 * time.Millisecond) // as long as a connection takes to end
		return err
	}
	s := taskapi.New(slow, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	dirs := []string{t.TempDir(), t.TempDir(), t.TempDir()}
	for _, dir := range dirs[:2] {
		if _, err := s.Open(dir); err != nil {
			t.Fatal(err)
		}
	}
	for answering.Load() < 2 {
		time.Sleep(time.Millisecond)
	}
	if err := s.Close(dirs[0]); err != nil || answering.Load() != 1 {
		t.Errorf("one is closed: %d are answered, %v", answering.Load(), err)
	}
	if err := s.End(); err != nil || answering.Load() != 0 {
		t.Errorf("all are: %d are answered, %v", answering.Load(), err)
	}
	if there, err := s.Open(dirs[2]); err != nil || there {
		t.Error(there, err)
	}
	for _, dir := range dirs {
		if _, err := os.Lstat(filepath.Join(dir, taskapi.Name)); !os.IsNotExist(err) {
			t.Errorf("a socket is left: %v", err)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
