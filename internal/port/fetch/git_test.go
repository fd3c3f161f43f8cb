package fetch

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"berth/internal/base/fault"
)

// smart answers by git's own program, for repositories in a directory.
func smart(t *testing.T, dir string) http.Handler {
	t.Helper()
	program, err := findGit()
	if err != nil {
		t.Fatal(err)
	}
	return &cgi.Handler{
		Path: program,
		Args: []string{"http-backend"},
		Env: []string{"GIT_PROJECT_ROOT=" + dir, "GIT_HTTP_EXPORT_ALL=1", "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1",
			"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"},
		Stderr: io.Discard,
	}
}

// hears is a server that remembers what it heard.
type hears struct {
	*httptest.Server
	mu       sync.Mutex
	requests []*http.Request
}

func hearing(t *testing.T, h http.Handler) *hears {
	t.Helper()
	s := &hears{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.requests = append(s.requests, r)
		s.mu.Unlock()
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *hears) heard() []*http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

// Given a repository whose server sends git to another host, when it is fetched with headers, a user and a query that
// hold secrets, then all of it goes to the host that the job names, none of it to the other, and the files are there.
func TestSecretsOfARepositoryAreForTheHostThatTheJobNames(t *testing.T) {
	for name, backend := range map[string]func(dir string) http.Handler{
		"a server with git's own program": func(dir string) http.Handler { return smart(t, dir) },
		"a server of files":               func(dir string) http.Handler { return http.FileServer(http.Dir(dir)) },
	} {
		t.Run(name, func(t *testing.T) {
			there := hearing(t, backend(bare(t)))
			here := hearing(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				to := there.URL + r.URL.Path + "?service=" + r.URL.Query().Get("service")
				http.Redirect(w, r, to, http.StatusMovedPermanently)
			}))
			f := of(t, "git::"+strings.Replace(here.URL, "://", "://u:s3cret@", 1)+"/r.git?token=t0ken")
			f.req.Headers = map[string]string{"X-Key": "k"}
			f.must()
			if f.read("local/f") != "one\n" {
				t.Error("the file is not there")
			}
			for _, r := range here.heard() {
				user, password, _ := r.BasicAuth()
				if r.Header.Get("X-Key") != "k" || user != "u" || password != "s3cret" ||
					r.URL.Query().Get("token") != "t0ken" {
					t.Errorf("who the job names hears %s %v", r.URL, r.Header)
				}
			}
			for _, r := range there.heard() {
				said := fmt.Sprint(r.URL, r.Header)
				if r.Header.Get("X-Key") != "" || r.Header.Get("Authorization") != "" ||
					strings.Contains(said, "s3cret") || strings.Contains(said, "t0ken") {
					t.Errorf("another host hears %s", said)
				}
			}
			if len(here.heard()) == 0 || len(there.heard()) == 0 {
				t.Error("one of them was not asked")
			}
		})
	}
}

// Given a repository that cannot be fetched, when that is said, then no secret of its address is.
func TestWhatIsSaidOfARepositoryHasNoSecret(t *testing.T) {
	url := serve(t, map[string]http.HandlerFunc{"/": http.NotFound})
	err := of(t, "git::"+strings.Replace(url, "://", "://u:s3cret@", 1)+"/r.git?token=t0ken").get(t.Context())
	if !fault.Has(err, fault.Unavailable) || strings.Contains(err.Error(), "s3cret") ||
		strings.Contains(err.Error(), "t0ken") || !strings.Contains(err.Error(), url+"/r.git") {
		t.Errorf("it says %v", err)
	}
}

// Given variables for proxies that have git ask none, when a repository lies at an address that is not asked, then it
// is refused all the same: what git asks is always judged.
func TestNoVariableLeadsGitPastTheGuard(t *testing.T) {
	s := hearing(t, http.FileServer(http.Dir(bare(t))))
	for _, variable := range []string{"NO_PROXY=x", "no_proxy=*", "ALL_PROXY=socks5://127.0.0.9:1",
		"https_proxy=http://127.0.0.9:1"} {
		f := of(t, "git::"+s.URL+"/r.git")
		f.req.Guard = Guard{}
		f.child.Environment = []string{variable}
		f.refused(fault.Denied, "no loopback address")
	}
	if len(s.heard()) > 0 {
		t.Error("the server heard of it")
	}
}

// Given a repository that says a part of itself lies at another host, when it is fetched, then that host is not asked.
func TestNoPartOfARepositoryComesFromElsewhere(t *testing.T) {
	dir := bare(t)
	other := hearing(t, http.FileServer(http.Dir(dir)))
	files := http.FileServer(http.Dir(dir))
	s := hearing(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/objects/info/http-alternates"):
			_, _ = io.WriteString(w, other.URL+"/r.git/objects\n")
		case strings.Contains(r.URL.Path, "/objects/"):
			http.NotFound(w, r)
		default:
			files.ServeHTTP(w, r)
		}
	}))
	of(t, "git::"+s.URL+"/r.git").refused(fault.Unavailable, "alternate disabled")
	if len(other.heard()) > 0 {
		t.Error("the other host heard of it")
	}
}

// Given a commit that is named by the beginning of its number, when the repository has a branch of any name, then the
// commit's files are there.
func TestACommitIsNamedByTheBeginningOfItsNumber(t *testing.T) {
	for _, branch := range []string{"main", "master"} {
		dir := t.TempDir()
		cmd := exec.CommandContext(t.Context(), "/bin/sh", "-ec", `git init -q -b `+branch+` w; cd w
git config user.email a@b; git config user.name x; echo one > f; git add .; git commit -qm one
git rev-parse --short=8 HEAD; echo two > f; git commit -qam two; git clone -q --bare . ../r.git`)
		cmd.Dir = dir
		cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1"}
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		s := httptest.NewServer(smart(t, dir))
		t.Cleanup(s.Close)
		f := of(t, "git::"+s.URL+"/r.git?ref="+strings.TrimSpace(string(out)))
		f.must()
		if f.read("local/f") != "one\n" {
			t.Errorf("%s: the files of the commit are not there", branch)
		}
	}
}

// Given a repository that comes in many small files, when all of them together are more than may be received, then it
// is refused, permanently.
func TestAllThatARepositorySendsIsCounted(t *testing.T) {
	dir := bare(t)
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-ec", `cd w
for n in 1 2 3 4 5 6; do head -c 50000 /dev/urandom > f; git commit -qam $n; done
cd ..; rm -rf r.git; cp -r w/.git r.git; cd r.git; git config core.bare true; git update-server-info`)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1"}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, backend := range []http.Handler{http.FileServer(http.Dir(dir)), smart(t, dir)} {
		s := httptest.NewServer(backend)
		t.Cleanup(s.Close)
		f := of(t, "git::"+s.URL+"/r.git")
		f.req.Bounds.Received = 200_000
		f.refused(fault.Invalid, "it has more than")
		f.req.Bounds.Received = 400_000
		f.must()
	}
}

// Given a proxy of the agent's for https, when a repository is fetched over https, then the passage comes by it to whom
// the job names, and nobody is asked past it.
func TestARepositoryOverTLSComesByTheProxy(t *testing.T) {
	origin := httptest.NewTLSServer(smart(t, bare(t)))
	t.Cleanup(origin.Close)
	var asked atomic.Int64
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect || r.Host != "artifacts.invalid:443" {
			http.Error(w, "not by me", http.StatusBadGateway)
			return
		}
		asked.Add(1)
		out, err := net.Dial("tcp", strings.TrimPrefix(origin.URL, "https://"))
		if err != nil {
			t.Error(err)
			return
		}
		in, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(in, "HTTP/1.1 200 OK\r\n\r\n")
		go func() {
			_, _ = io.Copy(out, in)
			_ = out.Close()
		}()
		_, _ = io.Copy(in, out)
		_ = in.Close()
	}))
	t.Cleanup(proxy.Close)
	f := of(t, "git::https://artifacts.invalid/r.git")
	f.req.Guard, f.req.Insecure = Guard{}, true
	f.child.Environment = []string{"https_proxy=" + proxy.URL}
	f.must()
	if f.read("local/f") != "one\n" || asked.Load() == 0 {
		t.Error("it did not come by the proxy")
	}
}
