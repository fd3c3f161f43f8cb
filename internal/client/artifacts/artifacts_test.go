package artifacts

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"berth/internal/base/artifact"
	"berth/internal/base/descriptors"
	"berth/internal/base/fault"
	"berth/internal/client/hook"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/port/driver"
	"berth/internal/port/fetch"
)

// The test's own program is the child too.
func TestMain(m *testing.M) {
	if err := descriptors.CloseOnExec(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if os.Args[0] == fetch.Role {
		os.Exit(fetch.Main(context.Background(), os.Args, os.Stdin, os.Stdout))
	}
	os.Exit(m.Run())
}

// task is one on a node whose hook may ask servers of 127.0.0.1.
type task struct {
	*hook.Task
	t    *testing.T
	hook *Hook
	env  map[string]string

	mu   sync.Mutex
	said []string
}

func with(t *testing.T, artifacts ...*job.Artifact) *task {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("a child of another user's needs root")
	}
	dir := t.TempDir()
	x := &task{t: t, env: map[string]string{}}
	x.hook = New(Settings{
		Bounds: fetch.Bounds{
			Received: 1 << 20,
			Unpacked: 1 << 20,
			Files:    100,
			HTTP:     time.Minute,
			Git:      time.Minute,
		},
		Allowed: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")},
	})
	x.Task = &hook.Task{
		Alloc:      &alloc.Alloc{ID: "a"},
		Group:      &job.TaskGroup{Name: "g"},
		Task:       &job.Task{Name: "web", Artifacts: artifacts},
		DriverInfo: driver.Info{Capabilities: driver.Capabilities{FSIsolation: driver.IsolationChroot}},
		Dir:        dir,
		AllocDir:   filepath.Join(dir, "alloc"),
		TaskDir:    filepath.Join(dir, "web"),
		Attempt:    1,
		Interpolate: func(s string) (string, error) {
			for name, value := range x.env {
				s = strings.ReplaceAll(s, "${"+name+"}", value)
			}
			return s, nil
		},
		Emit: func(e *alloc.TaskEvent) {
			x.mu.Lock()
			defer x.mu.Unlock()
			x.said = append(x.said, e.Type+": "+e.DisplayMessage)
		},
	}
	for _, d := range []string{x.AllocDir, x.TaskDir, filepath.Join(x.TaskDir, "local"),
		filepath.Join(x.TaskDir, "secrets")} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return x
}

func (x *task) start() error { return x.hook.Prestart(x.t.Context(), x.Task) }

func (x *task) must() {
	x.t.Helper()
	if err := x.start(); err != nil {
		x.t.Fatal(err)
	}
}

// holds expects a file beneath the alloc's directory.
func (x *task) holds(at, want string) {
	x.t.Helper()
	if data, err := os.ReadFile(filepath.Join(x.Dir, at)); err != nil || string(data) != want {
		x.t.Errorf("%s has %q %v, want %q", at, data, err, want)
	}
}

// nothingLeft expects that no directory of a fetch is there, and no file but those.
func (x *task) nothingLeft(but ...string) {
	x.t.Helper()
	var left []string
	err := filepath.WalkDir(x.Dir, func(at string, d os.DirEntry, err error) error {
		if strings.HasPrefix(d.Name(), ".artifact-") || err == nil && !d.IsDir() {
			left = append(left, strings.TrimPrefix(at, x.Dir+"/"))
		}
		return err
	})
	if !slices.Equal(left, but) {
		x.t.Errorf("there are %q %v, want %q", left, err, but)
	}
}

// server counts how often each path is asked.
type server struct {
	*httptest.Server
	mu    sync.Mutex
	asked map[string]int
}

func serve(t *testing.T, answers map[string]http.HandlerFunc) *server {
	t.Helper()
	s := &server{asked: map[string]int{}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.asked[r.URL.Path]++
		s.mu.Unlock()
		if answer := answers[r.URL.Path]; answer != nil {
			answer(w, r)
			return
		}
		http.NotFound(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *server) times(path string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[path]
}

func text(s string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, s) }
}

func tarred(t *testing.T, name, body string) string {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(body))})
	if _, werr := io.WriteString(w, body); err != nil || werr != nil {
		t.Fatal(err, werr)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func file(source, dest string) *job.Artifact {
	return &job.Artifact{GetterSource: source, RelativeDest: dest, GetterMode: artifact.File}
}

func tree(source, dest string) *job.Artifact {
	return &job.Artifact{GetterSource: source, RelativeDest: dest, GetterMode: artifact.Any}
}

// Where an artifact belongs: each kind of destination, with what the task's environment says filled in, has a directory
// of the node and a path beneath it, and what leads out of the task's directories has none.
func TestWhereAnArtifactBelongs(t *testing.T) {
	for _, c := range []struct {
		dest, mode string
		root, rel  string // below the alloc's directory; an empty root: it is refused
	}{
		{"local/", artifact.Any, "web", "local"},
		{"local", artifact.Dir, "web", "local"},
		{"local/a/b", artifact.Any, "web", "local/a/b"},
		{"local/name", artifact.File, "web", "local/name"},
		{"secrets/", artifact.Any, "web", "secrets"},
		{"alloc/data", artifact.Any, "alloc", "data"},
		{"alloc/f", artifact.File, "alloc", "f"},
		{"/local/x", artifact.Any, "web", "local/x"},
		{"${NOMAD_TASK_DIR}/x", artifact.Any, "web", "local/x"},
		{"${NOMAD_TASK_DIR}", artifact.Any, "web", "local"},
		{"${NOMAD_TASK_DIR}/", artifact.Any, "web", "local"},
		{"${NOMAD_ALLOC_DIR}/f", artifact.File, "alloc", "f"},
		{"/etc", artifact.Any, "", ""},
		{"../x", artifact.Any, "", ""},
		{"local/../../x", artifact.Any, "", ""},
		{"${OUT}", artifact.File, "", ""},
		{"alloc/../../../etc/passwd", artifact.File, "", ""},
		{"bin", artifact.Any, "", ""},
		{"${NOMAD_META_x}/y", artifact.Any, "", ""},
		{"local/${NOMAD_META_x}", artifact.Any, "", ""},
		{"alloc/${NOMAD_META_x}", artifact.File, "", ""},
		{".artifacts", artifact.File, "", ""},
	} {
		x := with(t, &job.Artifact{GetterSource: "http://h/a.tar", RelativeDest: c.dest, GetterMode: c.mode})
		x.env["NOMAD_TASK_DIR"] = filepath.Join(x.TaskDir, "local")
		x.env["NOMAD_ALLOC_DIR"] = x.AllocDir
		x.env["OUT"] = "/../../x"
		all, err := x.hook.plan(x.Task)
		if c.root == "" {
			if !fault.Has(err, fault.Invalid) {
				t.Errorf("%s (%s): %v, want that it is refused", c.dest, c.mode, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s (%s): %v", c.dest, c.mode, err)
			continue
		}
		if p := all[0].Place; p.Root != filepath.Join(x.Dir, c.root) || p.Rel != c.rel {
			t.Errorf("%s (%s) lies in %s at %s", c.dest, c.mode, strings.TrimPrefix(p.Root, x.Dir), p.Rel)
		}
	}
}

// A task that sees the node's files sees all of its own directory; what the agent keeps there is not for artifacts.
func TestATaskWithoutAViewOfItsOwnHasArtifactsAnywhere(t *testing.T) {
	for dest, rel := range map[string]string{"bin": "bin", "local/x": "local/x", ".artifact-0": "", "${X}": ""} {
		x := with(t, tree("http://h/a.tar", dest))
		x.DriverInfo.Capabilities.FSIsolation = driver.IsolationNone
		all, err := x.hook.plan(x.Task)
		if rel == "" && !fault.Has(err, fault.Invalid) || rel != "" && (err != nil || all[0].Place.Rel != rel) {
			t.Errorf("%s: %v", dest, err)
		}
	}
}

// Given a task with a file, an archive and one of them in the directory that tasks share, when it starts, then each
// lies in its place, what the environment says is filled in everywhere, and an event begins and ends it; when it starts
// again, nobody is asked again, until what it wants is something else.
func TestAnArtifactIsFetchedOnceForAnAllocation(t *testing.T) {
	var key atomic.Value
	s := serve(t, map[string]http.HandlerFunc{
		"/v1/f": func(w http.ResponseWriter, r *http.Request) {
			key.Store(r.Header.Get("X-Key") + r.URL.Query().Get("q"))
			_, _ = io.WriteString(w, "one")
		},
		"/v2/f":  text("two"),
		"/a.tar": text(tarred(t, "d/x", "packed")),
	})
	f := file(s.URL+"/${V}/f", "local/${V}")
	f.GetterHeaders = map[string]string{"X-Key": "${V}"}
	f.GetterOptions = map[string]string{"q": "-${V}"}
	x := with(t, f, tree(s.URL+"/a.tar", "local/"), tree(s.URL+"/a.tar//d", "alloc/shared"))
	x.env["V"] = "v1"
	x.must()
	x.holds("web/local/v1", "one")
	x.holds("web/local/d/x", "packed")
	x.holds("alloc/shared/x", "packed")
	x.nothingLeft("alloc/shared/x", "web/.artifacts", "web/local/d/x", "web/local/v1")
	if key.Load() != "v1-v1" {
		t.Errorf("the server heard %v", key.Load())
	}
	if len(x.said) != 2 || x.said[0] != alloc.EventDownloading+": Downloading 3 artifacts" ||
		!strings.HasPrefix(x.said[1], alloc.EventDownloading+": Downloaded 3 artifacts in ") {
		t.Errorf("it said %q", x.said)
	}
	x.must()
	x.Restored = true
	x.must()
	if n := s.times("/v1/f"); n != 1 || len(x.said) != 2 {
		t.Errorf("it was asked %d times, and said %q", n, x.said)
	}
	x.Restored = false
	x.env["V"] = "v2"
	x.must()
	x.holds("web/local/v2", "two")
}

// Given an agent that died while it fetched, when the next one starts the task, then what the first left goes, and
// everything is fetched anew; nothing says before that it was there.
func TestWhatAnInterruptedFetchLeftIsFetchedAnew(t *testing.T) {
	begun, gone := make(chan struct{}), make(chan struct{})
	var calls atomic.Int64
	s := serve(t, map[string]http.HandlerFunc{
		"/f": text("f"),
		"/slow": func(w http.ResponseWriter, r *http.Request) {
			if calls.Add(1) > 1 {
				_, _ = io.WriteString(w, "slow")
				return
			}
			_, _ = io.WriteString(w, "half")
			_ = http.NewResponseController(w).Flush() // so that the child has something
			close(begun)
			<-r.Context().Done()
			close(gone)
		},
	})
	x := with(t, file(s.URL+"/f", "local/f"), file(s.URL+"/slow", "local/slow"))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- x.hook.Prestart(ctx, x.Task) }()
	select {
	case <-begun:
	case err := <-done:
		t.Fatal(err)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) || errors.As(err, new(*hook.Failure)) {
		t.Errorf("who goes away gets %v: that is no failure of the task's", err)
	}
	<-gone
	x.nothingLeft()
	all, err := x.hook.plan(x.Task)
	if err != nil {
		t.Fatal(err)
	}
	stale := filepath.Join(all[1].base, all[1].stage, fetch.Data)
	if err := os.MkdirAll(stale, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(stale, "slow"), []byte("older"), 0o600); err != nil {
		t.Fatal(err)
	}
	x.must()
	x.holds("web/local/slow", "slow")
	x.nothingLeft("web/.artifacts", "web/local/f", "web/local/slow")
}

// Given several artifacts of which one is refused, when the task starts, then none lies in its place, the others are
// given up, the failure says which it was and why, and its kind says whether another try can mend it.
func TestOfSeveralArtifactsAllAreThereOrNone(t *testing.T) {
	s := serve(t, map[string]http.HandlerFunc{
		"/f":       text("f"),
		"/out.tar": text(tarred(t, "../x", "x")),
		"/big":     text(strings.Repeat("x", 1<<20+1)),
		"/to": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.2:1/", http.StatusFound)
		},
		"/slow": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"/drips": func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				_, _ = io.WriteString(w, "x")
				_ = http.NewResponseController(w).Flush()
				select {
				case <-time.After(10 * time.Millisecond):
				case <-r.Context().Done():
				}
			}
		},
	})
	for path, c := range map[string]struct {
		mode string
		kind fault.Kind
		says string
	}{
		"/out.tar": {artifact.Any, fault.Invalid, "leads out of the archive"},
		"/big":     {artifact.Any, fault.Invalid, "it has more than"},
		"/to":      {artifact.Any, fault.Denied, "loopback"},
		"/gone":    {artifact.Any, fault.Unavailable, "404"},
		"/slow":    {artifact.Any, fault.Timeout, "longer than 1s"},
		"/drips":   {artifact.Any, fault.Timeout, "longer than 1s"},
		"/f?checksum=md5:" + strings.Repeat("0", 32): {artifact.Any, fault.Invalid, "does not match"},
		"/out.tar?x=s3cret":                          {artifact.File, fault.Invalid, "leads out of the archive"},
		"/f":                                         {artifact.Dir, fault.Invalid, "must be an archive"},
		"${OTHER}":                                   {artifact.Any, fault.Invalid, "nothing is fetched by"},
	} {
		bad := tree(s.URL+path, "local/bad")
		if path == "${OTHER}" {
			bad.GetterSource = path
		}
		bad.GetterMode = c.mode
		x := with(t, file(s.URL+"/f", "local/f"), bad)
		x.env["OTHER"] = "hg::https://h/b"
		x.hook.Bounds.HTTP = time.Second
		err := x.start()
		var failed *hook.Failure
		if !errors.As(err, &failed) || failed.Event != alloc.EventNotDownloaded || !fault.Has(err, c.kind) ||
			!strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "artifact 2 (") ||
			strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v (%v), want %v: %q", path, err, fault.KindOf(err), c.kind, c.says)
		}
		x.nothingLeft()
	}
}

// Given two artifacts that have a file of the same name, when they are fetched side by side, then the later one's is
// there, whichever came first.
func TestOfTwoWithTheSameFileTheLaterOnesIsThere(t *testing.T) {
	second := make(chan struct{})
	s := serve(t, map[string]http.HandlerFunc{
		"/1.tar": func(w http.ResponseWriter, _ *http.Request) {
			<-second
			_, _ = io.WriteString(w, tarred(t, "x", "first"))
		},
		"/2.tar": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, tarred(t, "x", "second"))
			close(second)
		},
	})
	x := with(t, tree(s.URL+"/1.tar", "local/"), tree(s.URL+"/2.tar", "local/"))
	x.must()
	x.holds("web/local/x", "second")
}

// Given more artifacts than are fetched at a time, when a task starts, then no more than that are on their way.
func TestSoManyAreFetchedAtATime(t *testing.T) {
	var now, most atomic.Int64
	s := serve(t, map[string]http.HandlerFunc{"/f": func(w http.ResponseWriter, _ *http.Request) {
		n := now.Add(1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		time.Sleep(20 * time.Millisecond)
		now.Add(-1)
		_, _ = io.WriteString(w, "f")
	}})
	var all []*job.Artifact
	for i := range 2*atOnce + 1 {
		all = append(all, file(s.URL+"/f", fmt.Sprintf("local/%d", i)))
	}
	x := with(t, all...)
	x.must()
	if n := most.Load(); n > atOnce {
		t.Errorf("%d were on their way at a time, the bound is %d", n, atOnce)
	}
	x.holds(fmt.Sprintf("web/local/%d", 2*atOnce), "f")
}

// Given chown, when an artifact is fetched, then its files are the task's user's; without it they are the agent's, and
// in both cases a child of that user fetched it.
func TestFilesBelongToTheTasksUserWhereTheJobSaysSo(t *testing.T) {
	s := serve(t, map[string]http.HandlerFunc{"/f": text("f")})
	mine, agents := file(s.URL+"/f", "local/mine"), file(s.URL+"/f", "local/agents")
	mine.Chown = true
	x := with(t, mine, agents)
	x.User = "nobody"
	x.must()
	for at, root := range map[string]bool{"mine": false, "agents": true} {
		st, err := os.Lstat(filepath.Join(x.TaskDir, "local", at))
		if err != nil {
			t.Fatal(err)
		}
		if own, ok := st.Sys().(*syscall.Stat_t); !ok || (own.Uid == 0) != root {
			t.Errorf("%s belongs to %d", at, own.Uid)
		}
	}
}

// Given a process of the same user that runs while a task's artifacts are fetched, when it moves what has arrived, or
// the directory in which it lies, and lays a link to root's files there, then root's files stay where and whose they
// are.
func TestNoProcessOfTheSameUserHasRootsFilesGivenAway(t *testing.T) {
	arrived := make(chan struct{})
	x := with(t)
	s := serve(t, map[string]http.HandlerFunc{
		"/f": text("f"),
		"/slow": func(w http.ResponseWriter, _ *http.Request) {
			<-arrived
			_, _ = io.WriteString(w, "slow")
		},
	})
	shared, secret := tree(s.URL+"/f", "alloc/got"), tree(s.URL+"/f", "secrets/got")
	shared.Chown, secret.Chown = true, true
	x.Task.Task.Artifacts = []*job.Artifact{shared, secret, file(s.URL+"/slow", "local/slow")}
	x.User = "nobody"
	inMemory := filepath.Join(x.TaskDir, "secrets") // as a node has them: another file system
	if err := syscall.Mount("tmpfs", inMemory, "tmpfs", 0, "size=1m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(inMemory, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	victim := filepath.Join(x.Dir, "victim")
	var dirs []string
	for _, dir := range []string{"data", "in/data"} {
		dirs = append(dirs, filepath.Join(victim, dir, "f"))
	}
	for _, at := range dirs {
		err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte("root's"), 0o600))
		if err != nil {
			t.Fatal(err)
		}
	}
	err := errors.Join(os.Chmod(filepath.Dir(x.Dir), 0o755), os.Chmod(x.AllocDir, 0o777|os.ModeSticky),
		os.Chown(inMemory, 65534, 65534))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- x.start() }()
	for n := 0; n < 2; { // what has arrived lies in its stage
		all, err := filepath.Glob(x.Dir + "/*/secrets/.artifact*/in/data/f")
		shared, err2 := filepath.Glob(x.Dir + "/*/.artifact*/in/data/f")
		time.Sleep(time.Millisecond)
		if n = len(all) + len(shared); err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
	}
	attack := exec.Command("/bin/sh", "-c", `cd "$0" || exit 1
for d in alloc/.artifact*/data */.artifact*/in/data */secrets/.artifact*/in/data */secrets/.artifact*; do
	mv "$d" alloc/moved-$$ || mv "$d" web/secrets/moved-$$ || continue
	ln -s "$0/victim/${d##*.artifact-?/}" "$d" || ln -s "$0/victim" "$d"
	echo "moved $d"
done 2>/dev/null; exit 0`, x.Dir)
	attack.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := attack.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "moved web/secrets/.artifact-1") {
		t.Errorf("nothing was tried: %s %v", out, err)
	}
	close(arrived)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	x.holds("alloc/got/f", "f")
	x.holds("web/secrets/got/f", "f")
	for _, at := range dirs {
		st, err := os.Lstat(at)
		if err != nil {
			t.Fatal(err)
		}
		if own, ok := st.Sys().(*syscall.Stat_t); !ok || own.Uid != 0 {
			t.Errorf("%s belongs to %d", at, own.Uid)
		}
	}
}

// Given a fetch that takes its time, when it goes on, then the task says how far it has come, less and less often, and
// how much there is where the server says so.
func TestAFetchThatTakesLongSaysHowFarItIs(t *testing.T) {
	var said []string
	at := time.Unix(0, 0)
	p := &pace{next: at.Add(sayAfter), patience: sayAfter, name: `artifact 1 ("x")`,
		say: func(s string) { said = append(said, s) }}
	for range 10 * 60 {
		at = at.Add(time.Second)
		p.progress(at, fetch.Progress{Received: at.Unix() << 20, Total: 1 << 30})
	}
	if len(said) < 3 || len(said) > 6 || !strings.HasPrefix(said[0], `Of artifact 1 ("x"), 15`) ||
		!strings.Contains(said[0], " of 1.0 GiB is here") && !strings.Contains(said[0], " of 1 GiB is here") {
		t.Errorf("it said %q", said)
	}
	p.progress(at.Add(time.Hour), fetch.Progress{Received: 1 << 20})
	if last := said[len(said)-1]; strings.Contains(last, " of ") {
		t.Errorf("of a size that nobody knows it said %q", last)
	}
}
