package access_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/internal/base/fault"
	"berth/internal/base/redact"
	"berth/internal/httpapi/access"
)

const word = "correct-horse-battery"

// Given a port with a token and a name, when requests come, then they pass with the token in either header and with a
// name that is the agent's; refusals begin as clients know them, say the way out, and never show a token.
func TestAPortAdmitsItsTokenAndItsNames(t *testing.T) {
	open := access.Network{Hosts: []string{"nomad.example.com", "[fd00::1]"}}
	guarded := access.Network{Hosts: open.Hosts, Token: redact.New(word)}
	const (
		shown  = "X-Nomad-Token"
		bearer = "Authorization"
		other  = "not this agent's"
	)
	for _, c := range []struct {
		name   string
		guard  access.Network
		host   string
		header []string
		want   []string // nil: admitted
	}{
		{"an open port", open, "127.0.0.1:4646", nil, nil},
		{"a token that nobody asks for", open, "localhost", []string{shown, "anything"}, nil},
		{"another address of the loopback", open, "127.9.9.9", nil, nil},
		{"the loopback of IPv6", open, "[::1]:4646", nil, nil},
		{"a name that is allowed", open, "Nomad.Example.COM:443", nil, nil},
		{"an address that is allowed", open, "[fd00::1]:4646", nil, nil},
		{"a name below one that is allowed", open, "x.nomad.example.com", nil, []string{"x.nomad", "allowed_hosts"}},
		{"a name that ends alike", open, "evilnomad.example.com", nil, []string{"allowed_hosts"}},
		{"an address of the network", open, "10.0.0.1:4646", nil, []string{"10.0.0.1", "allowed_hosts"}},
		{"a name like the loopback's", open, "127.0.0.1.evil.example", nil, []string{"allowed_hosts"}},
		{"any name", access.Network{Hosts: []string{"*"}}, "evil.example", nil, []string{"allowed_hosts"}},
		{"the token", guarded, "localhost", []string{shown, word}, nil},
		{"the token of a bearer", guarded, "localhost", []string{bearer, "bearer  " + word}, nil},
		{"no token", guarded, "localhost", nil, []string{"Permission denied", "no token", "BERTH_TOKEN"}},
		{"an empty token", guarded, "localhost", []string{shown, " "}, []string{"Permission denied", "no token"}},
		{"another token", guarded, "localhost", []string{shown, word + "x"}, []string{"Permission denied", other}},
		{"the beginning of the token", guarded, "localhost", []string{shown, word[:16]}, []string{other}},
		{"a wrong one first", guarded, "localhost", []string{shown, "x", bearer, "Bearer " + word}, []string{other}},
		{"the token as a password", guarded, "localhost", []string{bearer, "Basic " + word}, []string{"no token"}},
		{"a foreign name with the token", guarded, "evil.example", []string{shown, word}, []string{"allowed_hosts"}},
	} {
		r := httptest.NewRequest(http.MethodGet, "/v1/jobs", nil)
		r.Host = c.host
		for i := 0; i < len(c.header); i += 2 {
			r.Header.Set(c.header[i], c.header[i+1])
		}
		_, err := c.guard.Admit(r)
		expect(t, c.name, err, fault.Denied, c.want)
	}
}

// Given requests without the name of a host, then those of HTTP/1.0, which has none, pass, and others are wrong.
func TestAPortIsCalledByAName(t *testing.T) {
	r := httptest.NewRequest(http.MethodGet, "/v1/jobs", nil)
	r.Host = ""
	_, err := access.Network{}.Admit(r)
	expect(t, "no name", err, fault.Invalid, []string{"names no host", "Host"})
	r.Proto, r.ProtoMinor = "HTTP/1.0", 0
	_, err = access.Network{}.Admit(r)
	expect(t, "no name in HTTP/1.0", err, fault.Invalid, nil)
}

// Given reads that pages of other sites have a browser send, reads that act, and the one that hands out a secret, then
// an open port refuses them, and nothing else.
func TestAPortRefusesForeignReadsAndReadsThatAct(t *testing.T) {
	open := access.Network{}
	guarded := access.Network{Token: redact.New(word)}
	const gc, store = "/v1/client/gc", "/v1/operator/node-store"
	for _, c := range []struct {
		name  string
		guard access.Network
		path  string
		site  string
		want  []string
	}{
		{"a client", open, "/v1/jobs", "", nil},
		{"an address that somebody typed", open, "/v1/jobs", "none", nil},
		{"a page of the agent's own", open, "/v1/jobs", "same-origin", nil},
		{"an image of another site", open, "/v1/jobs", "cross-site", []string{"Permission denied", "cross-site"}},
		{"a page of a neighbouring name", open, "/v1/jobs", "same-site", []string{"Permission denied", "same-site"}},
		{"a link to the pages", open, "/ui/", "cross-site", nil},
		{"an image with the token", guarded, "/v1/jobs", "cross-site", []string{"cross-site"}},
		{"collection by whoever reaches it", open, gc, "", []string{"Permission denied", "socket", "token_file"}},
		{"collection of one", open, "/v1/client/allocation/x/gc", "", []string{"collects garbage"}},
		{"collection with the token", guarded, gc, "", nil},
		{"the node's store by whoever reaches it", open, store, "", []string{"secret of the node", "token_file"}},
		{"the node's store with the token", guarded, store, "", nil},
	} {
		r := httptest.NewRequest(http.MethodGet, c.path, nil)
		r.Host = "localhost"
		r.Header.Set("X-Nomad-Token", word)
		if c.site != "" {
			r.Header.Set("Sec-Fetch-Site", c.site)
		}
		_, err := c.guard.Admit(r)
		expect(t, c.name, err, fault.Denied, c.want)
	}
}

// expect wants an error of a kind with all of these words; no words: no error.
func expect(t *testing.T, name string, err error, kind fault.Kind, want []string) {
	t.Helper()
	if want == nil {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		return
	}
	if err == nil {
		t.Errorf("%s is taken", name)
		return
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%s: the refusal lacks %q: %v", name, w, err)
		}
	}
	if !fault.Has(err, kind) || strings.Contains(err.Error(), word[:16]) {
		t.Errorf("%s: %v, a fault of kind %s", name, err, fault.KindOf(err))
	}
}

// Given a socket, when its peer is the agent's user or root, then requests pass under any name; without a known peer
// they do not.
func TestASocketAdmitsItsPeers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	judge := func(w http.ResponseWriter, r *http.Request) {
		for _, uid := range []int{os.Geteuid(), os.Geteuid() + 1} {
			verdict := "admitted\n"
			if who, err := (access.Socket{UID: uid}).Admit(r); err != nil || !who.Local {
				verdict = err.Error() + "\n"
			}
			_, _ = io.WriteString(w, verdict) // a verdict that is lost is missed below
		}
	}
	s := &http.Server{ConnContext: access.WithPeer, Handler: http.HandlerFunc(judge)}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}
	client := &http.Client{Transport: &http.Transport{DialContext: dial}}
	resp, err := client.Get("http://whatever.example/v1/jobs")
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	if err := resp.Body.Close(); err != nil {
		t.Error(err)
	}
	verdicts := strings.Split(string(text), "\n")
	if err != nil || verdicts[0] != "admitted" || (verdicts[1] == "admitted") != (os.Geteuid() == 0) {
		t.Errorf("%q, %v", text, err)
	}
	_, stranger := access.Socket{}.Admit(httptest.NewRequest(http.MethodGet, "/", nil))
	expect(t, "an unknown peer", stranger, fault.Denied, []string{"Permission denied", "whose this connection is"})
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		t.Error(err)
	}
}

// Given names for the agent, when they are configured, then only those that a client can call are taken.
func TestNamesOfHosts(t *testing.T) {
	for _, good := range []string{"nomad.example.com", "berth", "my_host-1", "10.0.0.7", "::1", "[fd00::1]"} {
		expect(t, good, access.CheckHost(good), fault.Invalid, nil)
	}
	long := strings.Repeat("a.", 130) + "a"
	for _, wrong := range []string{"", "*", "*.example.com", "http://a", "a:4646", "[::1]:4646", "10.0.0.7:80", "a..b",
		".a",
		"a b", "a/b", "a\n", long} {
		expect(t, wrong, access.CheckHost(wrong), fault.Invalid, []string{"no name and no address"})
	}
}

// Given files, when the token is read, then one of its owner alone is taken without the space around, and every other
// is refused with the way out.
func TestFilesOfTokens(t *testing.T) {
	dir, me := t.TempDir(), os.Geteuid()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(file("good", "\n "+word+" \n", 0o400), link); err != nil {
		t.Fatal(err)
	}
	socket, err := net.Listen("unix", filepath.Join(dir, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = socket.Close() }() // nothing was accepted
	for _, c := range []struct {
		name, path string
		uid        int
		want       []string
	}{
		{"a good file", filepath.Join(dir, "good"), me, nil},
		{"a link to a good file", link, me, nil},
		{"no file", filepath.Join(dir, "none"), me, []string{"no such file", "umask 077"}},
		{"a directory", dir, me, []string{"not a regular file"}},
		{"a device", os.DevNull, me, []string{"not a regular file"}},
		{"a socket", filepath.Join(dir, "socket"), me, []string{"no such device"}},
		{"another user's", filepath.Join(dir, "good"), me + 1, []string{"belongs to user", "chown"}},
		{"the group's, too", file("group", word, 0o640), me, []string{"0640", "chmod 600"}},
		{"everybody's", file("all", word, 0o604), me, []string{"0604", "chmod 600"}},
		{"an empty one", file("empty", " \n", 0o600), me, []string{"0 characters", "at least 16", "urandom"}},
		{"a short one", file("short", word[:15], 0o600), me, []string{"15 characters", "at least 16"}},
		{"a long one", file("long", strings.Repeat("x", 5000), 0o600), me, []string{"more than 4096"}},
		{"two words", file("two", word+"\nsecond", 0o600), me, []string{"space or characters beyond ASCII"}},
	} {
		token, err := access.ReadToken(c.path, c.uid)
		expect(t, c.name, err, fault.Invalid, c.want)
		if c.want == nil && token.Reveal() != word || c.want != nil && !token.Empty() {
			t.Errorf("%s: the token is %q", c.name, token.Reveal())
		}
	}
}

// Given an agent that is root, when the token's file is another user's, then it is refused, though root could read it:
// that user could put a token of his own there.
func TestRootTakesNoTokenOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a file away")
	}
	path := filepath.Join(t.TempDir(), "token")
	if err := errors.Join(os.WriteFile(path, []byte(word), 0o600), os.Chown(path, 1000, -1)); err != nil {
		t.Fatal(err)
	}
	token, err := access.ReadToken(path, 0)
	expect(t, "a file of user 1000", err, fault.Invalid, []string{"belongs to user 1000", "runs as user 0", "chown 0 "})
	if !token.Empty() {
		t.Error("its token was taken")
	}
	if token, err = access.ReadToken(path, 1000); err != nil || token.Reveal() != word {
		t.Errorf("for an agent of user 1000: %v", err)
	}
}

// Given a port that shows a certificate, then its hosts are the agent's, and others are not.
func TestTheCertificateNamesTheHosts(t *testing.T) {
	n := access.Network{Lists: true, Named: func(host string) bool { return host == "berth.example" }}
	for host, want := range map[string]bool{
		"berth.example":      true,
		"berth.example:4646": true,
		"127.0.0.1:4646":     true,
		"evil.example":       false,
	} {
		r := httptest.NewRequest(http.MethodGet, "https://x/v1/jobs", nil)
		r.Host = host
		if _, err := n.Admit(r); (err == nil) != want {
			t.Errorf("by the name %s: %v", host, err)
		}
	}
}

// Given access control lists, when somebody at the port asks for the first token, then he is refused with the way out;
// he is not who shows the agent's own token, nor anybody where the configuration lets the port make it.
func TestTheFirstTokenIsNotMadeOverThePort(t *testing.T) {
	own := redact.New("the agent's own token")
	ask := func(n access.Network, token string) error {
		r := httptest.NewRequest(http.MethodPut, "http://localhost/v1/acl/bootstrap", nil)
		r.Header.Set("X-Nomad-Token", token)
		_, err := n.Admit(r)
		return err
	}
	for _, token := range []string{"", "another"} {
		expect(t, "a stranger", ask(access.Network{Lists: true, Token: own}, token), fault.Denied,
			[]string{"Permission denied", "unix socket", "berth acl bootstrap", "bootstrap_over_http = true"})
	}
	expect(t, "the agent's token", ask(access.Network{Lists: true, Token: own}, own.Reveal()), fault.Denied, nil)
	expect(t, "an open bootstrap", ask(access.Network{Lists: true, Bootstrap: true}, ""), fault.Denied, nil)
}

// Given the agent's own token, however it is shown, then nobody whom the request is handed on to sees it.
func TestTheAgentsTokenGoesNoFurther(t *testing.T) {
	own := "the agent's own token"
	n := access.Network{Lists: true, Token: redact.New(own)}
	for name, value := range map[string]string{"X-Nomad-Token": own, "Authorization": "Bearer " + own} {
		r := httptest.NewRequest(http.MethodGet, "http://localhost/v1/jobs", nil)
		r.Header.Set(name, value)
		who, err := n.Admit(r)
		if err != nil || !who.Local || !who.Token.Empty() {
			t.Errorf("%s: %+v, %v", name, who, err)
		}
		if left := access.Token(r); !left.Empty() || r.Header.Get(name) != "" {
			t.Errorf("%s: the request still shows it", name)
		}
	}
}

// Given a request whose address or header of the namespace is no text, then it is refused; others are not.
func TestWhatIsNoTextIsRefused(t *testing.T) {
	for _, c := range []struct {
		path, namespace string
		fine            bool
	}{
		{"/v1/jobs?prefix=%C3%BC", "", true},
		{"/v1/jobs", "ünal", true},
		{"/v1/jobs?prefix=%ff", "", false},
		{"/v1/job/a%00", "", false},
		{"/v1/jobs", "a\xff", false},
	} {
		r := httptest.NewRequestWithContext(t.Context(), "GET", c.path, nil)
		r.Header.Set("X-Nomad-Namespace", c.namespace)
		if err := access.Legible(r); (err == nil) != c.fine {
			t.Errorf("%s of namespace %q: %v", c.path, c.namespace, err)
		}
	}
}
