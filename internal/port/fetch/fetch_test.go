package fetch

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"berth/internal/base/artifact"
	"berth/internal/base/descriptors"
	"berth/internal/base/fault"
)

// The test's own program is the child too.
func TestMain(m *testing.M) {
	if err := descriptors.CloseOnExec(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if os.Args[0] == Role {
		os.Exit(Main(context.Background(), os.Args, os.Stdin, os.Stdout))
	}
	os.Exit(m.Run())
}

// fetched is one fetch: who is asked, what for, and where it lies.
type fetched struct {
	t     *testing.T
	child Child
	req   Request
	place Place
	base  string // where it is fetched
}

// of is a fetch of a source, from servers of the loopback, that leaves a directory.
func of(t *testing.T, source string) *fetched {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("a child of another user's needs root")
	}
	s, err := artifact.Parse(source, nil)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "task"), 0o755); err != nil {
		t.Fatal(err)
	}
	b := Bounds{
		Received: 1 << 20,
		Unpacked: 1 << 20,
		Files:    100,
		HTTP:     time.Minute,
		Git:      time.Minute,
	}
	return &fetched{
		t:     t,
		base:  dir,
		child: Child{UID: 4321, GID: 8765},
		req: Request{
			Source: *s,
			Mode:   artifact.Any,
			Bounds: b,
			Guard:  Guard{Allowed: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}},
		},
		place: Place{
			Root:   filepath.Join(dir, "task"),
			Rel:    "local",
			UID:    -1,
			GID:    -1,
			Bounds: b,
		},
	}
}

// get fetches and puts in place.
func (f *fetched) get(ctx context.Context) error {
	s := f.stage()
	r, err := f.child.Run(ctx, s, &f.req, func(Progress) {})
	if err != nil {
		return err
	}
	return f.place.Install(s, r)
}

func (f *fetched) stage() *Stage {
	f.t.Helper()
	base, err := os.OpenRoot(f.base)
	if err != nil {
		f.t.Fatal(err)
	}
	s, err := f.child.NewStage(base, "stage")
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		if err := errors.Join(s.Remove(), s.Close()); err != nil {
			f.t.Error(err)
		}
	})
	return s
}

// lay is a stage in which a child has left something.
func (f *fetched) lay(lay func(data string) error) *Stage {
	f.t.Helper()
	s := f.stage()
	data := filepath.Join(f.base, "stage", innerName, Data)
	if err := errors.Join(os.Mkdir(data, 0o755), lay(data)); err != nil {
		f.t.Fatal(err)
	}
	err := filepath.WalkDir(data, func(at string, d os.DirEntry, err error) error {
		if err != nil || d.Name() == "roots" {
			return err
		}
		st, err := os.Lstat(at) // to give away a file takes its set-user-id bit
		return errors.Join(err, os.Lchown(at, int(f.child.UID), int(f.child.GID)), chmod(at, st))
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return s
}

func (f *fetched) must() {
	f.t.Helper()
	if err := f.get(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
}

// refused expects an error of a kind that says something, and that nothing lies in the artifact's place.
func (f *fetched) refused(kind fault.Kind, says string) {
	f.t.Helper()
	err := f.get(f.t.Context())
	if !fault.Has(err, kind) || !strings.Contains(err.Error(), says) {
		f.t.Errorf("it says %v (%v), want %v: %q", err, fault.KindOf(err), kind, says)
	}
	if left, _ := os.ReadDir(f.place.Root); len(left) != 0 {
		f.t.Errorf("it left %v", left)
	}
}

func (f *fetched) read(rel string) string {
	f.t.Helper()
	data, err := os.ReadFile(filepath.Join(f.place.Root, rel))
	if err != nil {
		f.t.Error(err)
	}
	return string(data)
}

// serve is a server of the loopback that answers paths.
func serve(t *testing.T, paths map[string]http.HandlerFunc) string {
	t.Helper()
	mux := http.NewServeMux()
	for path, h := range paths {
		mux.HandleFunc(path, h)
	}
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL
}

func text(s string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, s) }
}

// tarred is an archive of entries; a body makes a plain file.
func tarred(t *testing.T, entries ...tar.Header) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, h := range entries {
		body := ""
		if h.Typeflag == 0 {
			h.Typeflag = tar.TypeReg
			body = h.Linkname
			h.Linkname, h.Size = "", int64(len(body))
		}
		if h.Mode == 0 {
			h.Mode = 0o644
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, body); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func zipped(t *testing.T, entries map[string]string) string {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for name, body := range entries {
		f, err := w.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(f, body); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Given files, packed files and archives, when they are fetched, then they lie in their place as they were, links and
// modes included, and belong to the agent unless they are to be somebody's.
func TestWhatIsFetchedLiesInItsPlace(t *testing.T) {
	url := serve(t, map[string]http.HandlerFunc{
		"/plain": text("plain"),
		"/f.gz": text(func() string {
			var b bytes.Buffer
			z := gzip.NewWriter(&b)
			_, _ = z.Write([]byte("packed"))
			_ = z.Close()
			return b.String()
		}()),
		"/a.zip": text(zipped(t, map[string]string{"d/x": "zipped", "y": "2"})),
		"/a.tar.gz": text(tarred(t, tar.Header{Name: "d/", Typeflag: tar.TypeDir, Mode: 0o750},
			tar.Header{Name: "d/run", Linkname: "#!", Mode: 0o755},
			tar.Header{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "d/run"},
			tar.Header{Name: "same", Typeflag: tar.TypeLink, Linkname: "d/run"})),
	})
	for source, want := range map[string]map[string]string{
		"/plain":           {"local/plain": "plain"},
		"/f.gz":            {"local/f": "packed"},
		"/a.zip":           {"local/d/x": "zipped", "local/y": "2"},
		"/a.zip//d":        {"local/x": "zipped"},
		"/a.zip//d/x":      {"local/x": "zipped"},
		"/a.tar.gz":        {"local/d/run": "#!", "local/l": "#!", "local/same": "#!"},
		"/a.zip?archive=0": {"local/a.zip": zipped(t, map[string]string{"d/x": "zipped", "y": "2"})[:0]},
	} {
		f := of(t, url+source)
		f.must()
		for at, content := range want {
			if got := f.read(at); got != content && content != "" {
				t.Errorf("%s: %s has %q, want %q", source, at, got, content)
			}
		}
	}
	f := of(t, url+"/a.tar.gz")
	f.place.UID, f.place.GID = 77, 88
	f.must()
	for at, mode := range map[string]os.FileMode{
		"local": 0o755 | os.ModeDir, "local/d": 0o750 | os.ModeDir, "local/d/run": 0o755,
	} {
		st, err := os.Lstat(filepath.Join(f.place.Root, at))
		if err != nil {
			t.Fatal(err)
		}
		if own := st.Sys().(*syscall.Stat_t); own.Uid != 77 || own.Gid != 88 || st.Mode() != mode {
			t.Errorf("%s is %v of %d:%d", at, st.Mode(), own.Uid, own.Gid)
		}
	}
	one := of(t, url+"/a.zip//y")
	one.req.Mode = artifact.File
	one.place.File, one.place.Rel = true, "local/deep/name"
	one.must()
	if one.read("local/deep/name") != "2" {
		t.Error("a file does not lie under the name that it was to have")
	}
}

// Given archives that would write elsewhere, make what is no file, or unpack to more than there may be, when they are
// fetched, then they are refused with the reason, permanently, and nothing of them lies in their place.
func TestWhatAnArchiveMayNotHave(t *testing.T) {
	zeros := strings.Repeat("\x00", 3<<20)
	many := make([]tar.Header, 101)
	for i := range many {
		many[i] = tar.Header{Name: "f" + strconv.Itoa(i), Linkname: "x"}
	}
	link := func(name, to string) tar.Header {
		return tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: to}
	}
	deep := tar.Header{Name: "a/b/x", Linkname: "x"}
	for name, c := range map[string]struct{ path, body, says string }{
		"a path upwards": {
			"/a.tar.gz",
			tarred(t, tar.Header{Name: "../x", Linkname: "x"}),
			"leads out of the archive",
		},
		"a whole path": {
			"/a.tar.gz",
			tarred(t, tar.Header{Name: "/etc/x", Linkname: "x"}),
			"leads out of the archive",
		},
		"a path upwards, zipped": {
			"/a.zip",
			zipped(t, map[string]string{"a/../../x": "x"}),
			"leads out of the archive",
		},
		"a path of Windows":      {"/a.zip", zipped(t, map[string]string{`..\x`: "x"}), "leads out of the archive"},
		"a link to a whole path": {"/a.tar.gz", tarred(t, link("l", "/etc/passwd")), "a link out of the archive"},
		"a link upwards":         {"/a.tar.gz", tarred(t, link("d/l", "../../x")), "a link out of the archive"},
		"a link by way of another": {
			"/a.tar.gz",
			tarred(t, deep, link("a/b/l", "../.."), link("a/b/m", "l/../x")),
			"leads out of",
		},
		"a link in circles": {
			"/a.tar.gz",
			tarred(t, link("l", "l")),
			"leads out of the artifact, or in circles",
		},
		"writing through a link": {
			"/a.tar.gz",
			tarred(t, link("l", ".."), tar.Header{Name: "l/x", Linkname: "x"}),
			"a link out of",
		},
		"another name of a file": {
			"/a.tar.gz",
			tarred(t, tar.Header{Name: "h", Typeflag: tar.TypeLink, Linkname: "/etc/shadow"}),
			"leads out of",
		},
		"a device": {
			"/a.tar.gz",
			tarred(t, tar.Header{Name: "n", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3}),
			"no file",
		},
		"a pipe": {
			"/a.tar.gz",
			tarred(t, tar.Header{Name: "p", Typeflag: tar.TypeFifo}),
			"no file, directory or link",
		},
		"set-user-id": {
			"/a.tar.gz",
			tarred(t, tar.Header{Name: "s", Linkname: "x", Mode: 0o4755}),
			"set-user-id",
		},
		"many files": {"/a.tar.gz", tarred(t, many...), "more than 100 files"},
		"many bytes": {
			"/a.tar.gz",
			tarred(t, tar.Header{Name: "z", Linkname: zeros}),
			"unpacks to more than",
		},
		"many bytes, zipped":     {"/a.zip", zipped(t, map[string]string{"z": zeros}), "unpacks to more than"},
		"many bytes of one file": {"/z.gz", gzipped(t, zeros), "unpacks to more than"},
		"no archive":             {"/a.tar.gz", "nonsense", "unpack it"},
		"an archive cut off": {
			"/a.tar.gz",
			tarred(t, tar.Header{Name: "z", Linkname: zeros[:9999]})[:60],
			"unpack it",
		},
		"more than may be received": {"/plain", strings.Repeat("x", 1<<20+1), "it has more than"},
	} {
		t.Run(name, func(t *testing.T) {
			of(t, serve(t, map[string]http.HandlerFunc{c.path: text(c.body)})+c.path).refused(fault.Invalid, c.says)
		})
	}
}

func gzipped(t *testing.T, body string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(body)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Given an archive that names files in many directories, and not the directories, when it is unpacked, then these count
// as they are made, and it is not only seen afterwards how many there are.
func TestDirectoriesThatAnArchiveDoesNotNameCount(t *testing.T) {
	body := tarred(t, tar.Header{Name: strings.Repeat("d/", 101) + "x", Linkname: "x"})
	f := of(t, serve(t, map[string]http.HandlerFunc{"/a.tgz": text(body)})+"/a.tgz")
	_, err := f.child.Run(t.Context(), f.stage(), &f.req, func(Progress) {})
	if !fault.Has(err, fault.Invalid) || !strings.Contains(err.Error(), "more than 100 files") {
		t.Errorf("it says %v", err)
	}
}

// Given archives and what a child leaves, when directories lie in each other deeper than can be held open, then they
// are refused before they are made, or before they are looked through.
func TestNothingLiesTooDeep(t *testing.T) {
	deep := strings.Repeat("d/", deepest+20) + "x"
	for path, body := range map[string]string{
		"/a.zip": zipped(t, map[string]string{deep: "x"}),
		"/a.tgz": tarred(t, tar.Header{Name: deep, Linkname: "x"}),
		"/b.tgz": tarred(t, tar.Header{Name: strings.Repeat("d/", deepest) + "x", Linkname: "x"}),
	} {
		f := of(t, serve(t, map[string]http.HandlerFunc{path: text(body)})+path)
		f.req.Bounds.Files, f.place.Bounds.Files = 0, 0
		f.refused(fault.Invalid, "deeper than 200 directories")
	}
	f := of(t, "http://h/x")
	f.place.Bounds.Files = 0
	s := f.lay(func(d string) error { return os.MkdirAll(d+"/"+strings.Repeat("d/", deepest+1), 0o755) })
	err := f.place.Install(s, &Result{})
	if !fault.Has(err, fault.Invalid) || !strings.Contains(err.Error(), "deeper than 200 directories") {
		t.Errorf("it says %v", err)
	}
}

// Given a size that is not said beforehand, when more than the bound comes, then the fetch ends there.
func TestWhatIsSentWithoutEndIsCutOff(t *testing.T) {
	url := serve(t, map[string]http.HandlerFunc{"/endless": func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 64<<10)); err != nil {
				return
			}
		}
	}})
	of(t, url+"/endless").refused(fault.Invalid, "it has more than")
}

// Given a checksum, when what comes adds up to another, then it is refused, permanently; when it adds up, it is there.
func TestAChecksumIsHeldAgainstWhatComes(t *testing.T) {
	url := serve(t, map[string]http.HandlerFunc{"/f": text("abc")})
	const sum = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
	of(t, url+"/f?checksum=sha256:"+sum).must()
	of(t, url+"/f?checksum=sha256:"+strings.Replace(sum, "ba", "ab", 1)).refused(fault.Invalid, "does not match")
}

// Given answers that may be others next time, when they come, then the error says so by its kind, and says nothing of
// what the query of the address holds.
func TestWhatMayGoBetterNextTime(t *testing.T) {
	status := func(n int) http.HandlerFunc { return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(n) } }
	url := serve(t, map[string]http.HandlerFunc{
		"/404":  status(404),
		"/503":  status(503),
		"/slow": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"/short": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "10")
			_, _ = io.WriteString(w, "x")
		},
		"/round": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/round", http.StatusFound) },
	})
	of(t, url+"/404").refused(fault.Unavailable, "404")
	of(t, url+"/503").refused(fault.Unavailable, "503")
	of(t, url+"/short").refused(fault.Unavailable, "EOF")
	of(t, url+"/round").refused(fault.Unavailable, "redirects more than 10 times")
	slow := of(t, url+"/slow")
	slow.req.Bounds.HTTP = time.Second
	slow.refused(fault.Timeout, "longer than 1s")
	gone := of(t, "http://127.0.0.1:1/x?secret=s3cret")
	gone.refused(fault.Unavailable, "connection refused")
	if err := gone.get(t.Context()); strings.Contains(err.Error(), "s3cret") {
		t.Errorf("it tells what the query holds: %v", err)
	}
}

// Given addresses that artifacts do not come from, when a source names one, by its number, by a name, or by a redirect,
// then it is refused when the connection is made, and the server hears nothing.
func TestRefusedAddressesHearNothing(t *testing.T) {
	heard := false
	inner := serve(t, map[string]http.HandlerFunc{"/": func(http.ResponseWriter, *http.Request) { heard = true }})
	_, port, err := net.SplitHostPort(strings.TrimPrefix(inner, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	// 127.0.0.1 is allowed and 127.0.0.2 is not: it is another address of the same kind.
	other, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	hidden := &httptest.Server{Listener: other, Config: &http.Server{Handler: http.HandlerFunc(
		func(http.ResponseWriter, *http.Request) { heard = true })}}
	hidden.Start()
	t.Cleanup(hidden.Close)
	outer := serve(t, map[string]http.HandlerFunc{
		"/to": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, hidden.URL+"/x", http.StatusFound) },
	})
	of(t, outer+"/to").refused(fault.Denied, "no loopback address")
	of(t, "git::"+hidden.URL+"/r.git").refused(fault.Denied, "no loopback address")
	for host, says := range map[string]string{
		"127.0.0.1": "loopback", "localhost": "loopback", "[::1]": "loopback", "[::ffff:127.0.0.1]": "loopback",
		"[64:ff9b::7f00:1]": "loopback", "169.254.169.254": "link-local", "[fe80::1]": "link-local",
		"0.0.0.0": "unspecified", "[::]": "unspecified", "0.1.2.3": "unspecified", "224.0.0.1": "multicast",
		"[fd00:ec2::254]": "metadata", "168.63.129.16": "metadata", "100.100.100.200": "metadata",
		"192.0.0.192": "metadata", "[::ffff:168.63.129.16]": "metadata",
		"2130706433": "", "0x7f.1": "",
	} {
		f := of(t, "http://"+host+":"+port+"/x")
		f.req.Guard = Guard{}
		if says == "" { // no number of an address to Go: a name that nobody has
			f.refused(fault.Unavailable, "")
			continue
		}
		f.refused(fault.Denied, "no "+says+" address")
	}
	own := of(t, inner+"/x")
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	own.req.Guard.Ports = []uint16{uint16(n)}
	own.refused(fault.Denied, "the agent's own address")
	if heard {
		t.Error("a server heard of it")
	}
}

// Whatever a name stood for before: it is the address of the connection itself that is judged.
func TestTheAddressOfAConnectionIsJudged(t *testing.T) {
	if _, err := (&Guard{}).dialer().DialContext(t.Context(), "tcp", "localhost:80"); !fault.Has(err, fault.Denied) {
		t.Errorf("a name of the loopback: %v", err)
	}
}

// Given a child, when it is at work, then it is the task's user, has no capabilities and no variables but those that it
// was given, and is filtered.
func TestAChildHasNothingOfTheAgents(t *testing.T) {
	waits, seen := make(chan struct{}), make(chan struct{})
	url := serve(t, map[string]http.HandlerFunc{"/f": func(w http.ResponseWriter, _ *http.Request) {
		close(seen)
		<-waits
		_, _ = io.WriteString(w, "x")
	}})
	f := of(t, url+"/f")
	f.child.Environment = []string{"NO_PROXY=x"}
	done := make(chan error, 1)
	ctx := t.Context()
	go func() { done <- f.get(ctx) }()
	select {
	case <-seen:
	case err := <-done:
		t.Fatal(err)
	}
	pid := childOf(t, os.Getpid())
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		t.Fatal(err)
	}
	mounts, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
	if err != nil {
		t.Fatal(err)
	}
	close(waits)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Uid:\t4321\t4321\t4321\t4321", "Gid:\t8765\t8765\t8765\t8765", "Groups:\t \n",
		"CapEff:\t0000000000000000", "CapPrm:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"} {
		if !strings.Contains(string(status), want) {
			t.Errorf("its status lacks %q:\n%s", want, status)
		}
	}
	if string(environ) != "NO_PROXY=x\x00" {
		t.Errorf("its environment is %q", environ)
	}
	if n := strings.Count(string(mounts), "\n"); n > 30 || !strings.Contains(string(mounts), " /tmp ") {
		t.Errorf("it has %d mounts:\n%s", n, mounts)
	}
}

// childOf is the one child of a process that is a fetch.
func childOf(t *testing.T, parent int) int {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range all {
		data, err := os.ReadFile(at)
		if err != nil {
			continue // it has ended
		}
		var pid, ppid int
		var comm, state string
		line := string(data[:bytes.IndexByte(data, '(')]) + "x" + string(data[bytes.LastIndexByte(data, ')')+1:])
		if _, err := fmt.Sscan(line, &pid, &comm, &state, &ppid); err == nil && ppid == parent {
			return pid
		}
	}
	t.Fatal("there is no child")
	return 0
}

// Given a fetch that goes on, when who asked for it goes away, then it ends, and its process with it.
func TestAFetchEndsWithWhoAskedForIt(t *testing.T) {
	seen := make(chan struct{})
	url := serve(t, map[string]http.HandlerFunc{"/f": func(_ http.ResponseWriter, r *http.Request) {
		close(seen)
		<-r.Context().Done()
	}})
	ctx, cancel := context.WithCancel(t.Context())
	f := of(t, url+"/f")
	done := make(chan error, 1)
	go func() { done <- f.get(ctx) }()
	select {
	case <-seen:
	case err := <-done:
		t.Fatal(err)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("it ends with %v", err)
	}
}

// Given headers, when whoever is asked redirects to another host, then that one gets none of them.
func TestHeadersAreForTheHostThatTheJobNames(t *testing.T) {
	var first, second string
	there := serve(t, map[string]http.HandlerFunc{"/f": func(w http.ResponseWriter, r *http.Request) {
		second = r.Header.Get("X-Key")
		_, _ = io.WriteString(w, "x")
	}})
	url := serve(t, map[string]http.HandlerFunc{"/f": func(w http.ResponseWriter, r *http.Request) {
		first = r.Header.Get("X-Key")
		http.Redirect(w, r, there+"/f", http.StatusFound)
	}})
	f := of(t, url+"/f")
	f.req.Headers = map[string]string{"X-Key": "k"}
	f.must()
	if first != "k" || second != "" {
		t.Errorf("the first heard %q, the second %q", first, second)
	}
}

// Given a server whose certificate nobody has vouched for, when it is asked, then it is believed only where the job
// says so, by insecure.
func TestACertificateIsBelievedByTheJobsWordAlone(t *testing.T) {
	s := httptest.NewTLSServer(text("x"))
	t.Cleanup(s.Close)
	of(t, s.URL+"/f").refused(fault.Unavailable, "certificate")
	f := of(t, s.URL+"/f")
	f.req.Insecure = true
	f.must()
}

// Given a repository with hooks, links and a submodule, when it is fetched, then its files are there, and nothing of it
// has run, been followed or been fetched in addition.
func TestARepositoryIsFilesAndNothingElse(t *testing.T) {
	dir := t.TempDir()
	run := func(script string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "/bin/sh", "-ec", script)
		cmd.Dir = dir
		cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1"}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	run(`git init -q -b main w; cd w; git config user.email a@b; git config user.name x
mkdir d; echo one > d/f; ln -s d/f l; git add .; git commit -qm one; git tag v1
echo two > d/f; git commit -qam two; git clone -q --bare . ../r.git; cd ../r.git; git update-server-info
cd ../w; ln -s /etc/passwd out; git add out; git commit -qm out; git clone -q --bare . ../out.git
cd ../out.git; git update-server-info`)
	s := httptest.NewServer(http.FileServer(http.Dir(dir)))
	t.Cleanup(s.Close)
	f := of(t, "git::"+s.URL+"/r.git")
	f.must()
	if f.read("local/d/f") != "two\n" || f.read("local/l") != "two\n" {
		t.Error("the files of HEAD are not there")
	}
	if _, err := os.Lstat(filepath.Join(f.place.Root, "local/.git")); err == nil {
		t.Error("the repository is there")
	}
	old := of(t, "git::"+s.URL+"/r.git//d?ref=v1")
	old.must()
	if old.read("local/f") != "one\n" {
		t.Error("the files of the tag are not there")
	}
	of(t, "git::"+s.URL+"/out.git").refused(fault.Invalid, "leads out of the artifact")
	of(t, "git::"+s.URL+"/none.git").refused(fault.Unavailable, "git fetch")
	few := of(t, "git::"+s.URL+"/r.git")
	few.req.Bounds.Files = 1
	few.refused(fault.Invalid, "more than 1 files")
}

// Given links, files and directories that a task laid on the way to an artifact's place, when it is put there, then no
// link is followed, a file is replaced, and a directory is left alone.
func TestNoLinkIsFollowedOnTheWay(t *testing.T) {
	url := serve(t, map[string]http.HandlerFunc{"/a.zip": text(zipped(t, map[string]string{"d/x": "new"}))})
	for name, c := range map[string]struct {
		lay  func(root, out string) error
		says string
	}{
		"a link out in the place of a directory": {func(root, out string) error {
			return errors.Join(os.Mkdir(root+"/local", 0o755), os.Symlink(out, root+"/local/d"))
		}, "on the way there lies a link"},
		"a link on the way": {func(root, out string) error { return os.Symlink(out, root+"/local") },
			"on the way there lies a link"},
		"a directory in the place of a file": {func(root, _ string) error {
			return os.MkdirAll(root+"/local/d/x", 0o755)
		}, "a directory lies in its place"},
		"a link in the place of a file": {func(root, out string) error {
			return errors.Join(os.MkdirAll(root+"/local/d", 0o755), os.Symlink(out+"/x", root+"/local/d/x"))
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f, out := of(t, url+"/a.zip"), t.TempDir()
			if err := errors.Join(os.WriteFile(out+"/x", []byte("old"), 0o600), c.lay(f.place.Root, out)); err != nil {
				t.Fatal(err)
			}
			err := f.get(t.Context())
			if c.says == "" && (err != nil || f.read("local/d/x") != "new") {
				t.Errorf("it is not there: %v", err)
			}
			if c.says != "" && (!fault.Has(err, fault.Invalid) || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("it says %v, want %q", err, c.says)
			}
			if data, err := os.ReadFile(out + "/x"); err != nil || string(data) != "old" {
				t.Errorf("what lies elsewhere is %q %v", data, err)
			}
		})
	}
}

// Given a stage, when a process of the child's user looks for it by a path, then it gets no further than the name.
func TestNobodyElseEntersTheDirectoryOfAFetch(t *testing.T) {
	f := of(t, "http://h/x")
	f.stage()
	if err := os.Chmod(filepath.Dir(f.base), 0o755); err != nil {
		t.Fatal(err)
	}
	for at, open := range map[string]bool{".": true, "stage": false, "stage/" + innerName: false} {
		ls := exec.CommandContext(t.Context(), "/bin/ls", filepath.Join(f.base, at))
		ls.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: f.child.UID, Gid: f.child.GID}}
		if out, err := ls.CombinedOutput(); (err == nil) != open {
			t.Errorf("%s: %v: %s", at, err, out)
		}
	}
}

func chmod(at string, st os.FileInfo) error {
	if !st.Mode().IsRegular() {
		return nil
	}
	return os.Chmod(at, st.Mode())
}

// Given a process of the child's user that puts a link to somebody else's directory in the place of what was fetched,
// or of the directory of the fetch, when it is put in its place, then nothing of what lies elsewhere is moved or given
// away.
func TestWhatLiesElsewhereIsNeverTaken(t *testing.T) {
	for name, c := range map[string]struct {
		swap func(base, victim string) error
		says string
	}{
		"what was fetched": {func(base, victim string) error {
			d := filepath.Join(base, "stage", innerName, Data)
			return errors.Join(os.Rename(d, base+"/moved"), os.Symlink(filepath.Join(victim, innerName, Data), d))
		}, "it is no directory"},
		"another's directory": {func(base, victim string) error {
			d := filepath.Join(base, "stage", innerName, Data)
			return errors.Join(os.Rename(d, base+"/moved"), os.Rename(filepath.Join(victim, innerName, Data), d))
		}, "somebody else's"},
		"the child's directory": {func(base, victim string) error {
			d := filepath.Join(base, "stage", innerName)
			return errors.Join(os.Rename(d, base+"/moved"), os.Symlink(filepath.Join(victim, innerName), d))
		}, "escapes"},
		"the directory of the fetch": {func(base, victim string) error {
			d := filepath.Join(base, "stage")
			return errors.Join(os.Rename(d, base+"/moved"), os.Symlink(victim, d))
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f, victim := of(t, "http://h/x"), t.TempDir()
			f.place.UID, f.place.GID = 4321, 8765
			s := f.lay(func(d string) error { return os.WriteFile(d+"/x", []byte("fetched"), 0o644) })
			theirs := filepath.Join(victim, innerName, Data)
			secret := filepath.Join(theirs, "roots")
			err := errors.Join(os.MkdirAll(theirs, 0o755), os.WriteFile(secret, []byte("secret"), 0o600),
				c.swap(f.base, victim))
			if err != nil {
				t.Fatal(err)
			}
			err = f.place.Install(s, &Result{})
			if c.says == "" && (err != nil || f.read("local/x") != "fetched") ||
				c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("it says %v, want %q", err, c.says)
			}
			if name == "another's directory" {
				secret = filepath.Join(f.base, "stage", innerName, Data, "roots")
			}
			st, err := os.Lstat(secret)
			if err != nil {
				t.Fatal(err)
			}
			if own, ok := st.Sys().(*syscall.Stat_t); !ok || own.Uid != 0 || st.Mode() != 0o600 {
				t.Errorf("root's file is %v of %d", st.Mode(), own.Uid)
			}
		})
	}
}

// Given what a child should never leave, when it is looked at, then it is refused: the agent believes no child.
func TestWhatAChildLeavesIsLookedAt(t *testing.T) {
	for name, lay := range map[string]func(data string) error{
		"a pipe":     func(d string) error { return syscall.Mkfifo(d+"/p", 0o600) },
		"a link out": func(d string) error { return os.Symlink("/etc/passwd", d+"/l") },
		"a file of another name": func(d string) error {
			return errors.Join(os.WriteFile(d+"/a", nil, 0o600), os.Link(d+"/a", d+"/../b"))
		},
		"set-user-id": func(d string) error {
			return errors.Join(os.WriteFile(d+"/a", nil, 0o600), os.Chmod(d+"/a", 0o755|os.ModeSetuid))
		},
		"another's directory": func(d string) error { return os.Mkdir(d+"/roots", 0o755) },
		"another's file":      func(d string) error { return os.WriteFile(d+"/roots", nil, 0o600) },
		"much":                func(d string) error { return os.WriteFile(d+"/a", make([]byte, 2<<20), 0o600) },
	} {
		f := of(t, "http://h/x")
		if err := f.place.Install(f.lay(lay), &Result{}); !fault.Has(err, fault.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
