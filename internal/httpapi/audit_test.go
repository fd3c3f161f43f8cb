package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"berth/internal/base/ids"
	"berth/internal/httpapi"
	"berth/internal/httpapi/access"
	"berth/internal/httpapi/audit"
)

// audited is a world behind a port that access control lists guard and an audit log sees, with the secrets of persons.
type audited struct {
	*world
	at      string
	secrets map[string]string
	ended   chan struct{} // hears of each session whose handler has ended
	guarded http.Handler
}

func newAudited(t *testing.T, cfg audit.Config) *audited {
	t.Helper()
	w := newWorld(t)
	_, secrets := judged(t, w)
	log, err := audit.Open(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	surface := httpapi.New(httpapi.Config{
		Servers: w.conn,
		Region:  "global",
		Self:    &self{node: w.node.id.Node},
		Parser:  here{},
		Log:     slog.New(slog.DiscardHandler),
		Audit:   log,
	})
	guarded := surface.Handler(access.Network{Lists: true, Agent: "n"})
	ended := make(chan struct{}, 1)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		guarded.ServeHTTP(w, r)
		if strings.HasSuffix(r.URL.Path, "/exec") {
			ended <- struct{}{}
		}
	}))
	t.Cleanup(func() {
		web.Close()
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	})
	return &audited{w, web.URL, secrets, ended, guarded}
}

// lines are what an audit log says, a short text each: what happens differently each time is left out.
func lines(t *testing.T, path string) (out []string) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for text := range strings.Lines(string(raw)) {
		var l audit.Line
		d := json.NewDecoder(strings.NewReader(text))
		d.DisallowUnknownFields()
		if err := d.Decode(&l); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if l.Time.IsZero() || !ids.IsUUID(l.Request) || !strings.HasPrefix(l.From, "127.0.0.1:") ||
			l.Stage == audit.Complete && l.Took <= 0 {
			t.Errorf("%s", text)
		}
		who, _, _ := strings.Cut(l.Who, " ")
		reason, _, _ := strings.Cut(l.Reason, ":")
		out = append(out, strings.Join([]string{l.Stage, who, l.What, l.Namespace, l.Object, l.Task,
			http.StatusText(l.Status), reason}, "|"))
	}
	return out
}

// since gives what a record says more than it does now, first that of strangers.
func since(t *testing.T, path string) func() []string {
	t.Helper()
	files := [2]string{audit.Strangers(path), path}
	var before [2]int
	for i, f := range files {
		before[i] = len(lines(t, f))
	}
	return func() (out []string) {
		for i, f := range files {
			for _, line := range lines(t, f)[before[i]:] {
				if i == 0 {
					line = "strangers: " + line
				}
				out = append(out, line)
			}
		}
		return out
	}
}

// Given callers whom nobody knows, when they are refused as often as they like, then what was done stays in the record,
// and no line of theirs is long, whatever they write into it; what they are let do is in the record, too.
func TestStrangersDoNotEndTheRecord(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	w := newAudited(t, audit.Config{Path: path, MaxBytes: 4 << 10, Files: 1})
	ask(t, "PUT", w.at+"/v1/jobs", w.secrets["writer"], map[string]any{"Job": webJob("done")})
	want := lines(t, path)
	for i := range 40 {
		who := []string{"nobody", "unknown"}[i%2]
		ask(t, "DELETE", w.at+"/v1/job/"+strings.Repeat("%01", 600), w.secrets[who], nil)
		shown := "/v1/client/fs/cat/" + w.alloc + "?path=x&task=" + strings.Repeat("%3C", 600)
		ask(t, "GET", w.at+shown, w.secrets[who], nil)
	}
	if got := lines(t, path); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the record says\n%s\nand not\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if _, err := os.Stat(path + ".1"); !os.IsNotExist(err) {
		t.Errorf("the record was shifted: %v", err)
	}
	for _, f := range []string{audit.Strangers(path), audit.Strangers(path) + ".1"} {
		raw, err := os.ReadFile(f)
		if err != nil || len(raw) == 0 || len(raw) > 4<<10 {
			t.Errorf("%s has %d bytes: %v", f, len(raw), err)
		}
		for line := range strings.Lines(string(raw)) {
			if len(line) > 1500 {
				t.Errorf("a line of %d bytes: %s", len(line), line)
			}
		}
	}
	w.must("PUT", "/v1/acl/policy/anonymous", map[string]any{"Rules": `namespace "default" { policy = "write" }`})
	said := since(t, path)
	ask(t, "PUT", w.at+"/v1/jobs", "", map[string]any{"Job": webJob("theirs")})
	got := said()
	if len(got) != 2 || got[0] != "strangers: received|anonymous|PUT /v1/jobs|default||||" ||
		got[1] != "complete|anonymous|PUT /v1/jobs|default|theirs||OK|" {
		t.Errorf("what a stranger was let do:\n%s", strings.Join(got, "\n"))
	}
}

// Given a write whose client hangs up before it was done, then that is in the record, and not that the agent stopped.
func TestWhoHangsUpIsRecordedAsSuch(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit", "audit.log")
	w := newAudited(t, audit.Config{Path: path, MaxBytes: 1 << 20, Files: 1})
	ctx, hangUp := context.WithCancel(t.Context())
	hangUp()
	req := httptest.NewRequestWithContext(ctx, "PUT", "/v1/jobs?namespace=default",
		strings.NewReader(`{"Job":{"ID":"one","Type":"batch","TaskGroups":[]}}`))
	req.RemoteAddr, req.Host = "127.0.0.1:1", "127.0.0.1"
	req.Header.Set("X-Nomad-Token", w.secrets["writer"])
	w.guarded.ServeHTTP(httptest.NewRecorder(), req)
	all := lines(t, audit.Strangers(path)) // nobody has found out who it was
	if len(all) != 1 || !strings.HasSuffix(all[0], "context canceled") {
		t.Errorf("recorded is %q", append(all, lines(t, path)...))
	}
}

// Given requests that change something, that show what tasks have, that read and that are refused, then what has to be
// is recorded, with who, what and how it ended; and no secret that a client sends is in the record.
func TestWhoDidWhatIsRecorded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit", "audit.log")
	w := newAudited(t, audit.Config{Path: path, MaxBytes: 1 << 20, Files: 1})
	const theirs = "?namespace=default&region=global&token=" + canary
	job := webJob("one")
	job["Meta"] = map[string]any{"password": canary}
	for _, c := range []struct {
		method, path, who string
		body              any
		want              []string
	}{
		{"GET", "/v1/jobs" + theirs, "writer", nil, nil},
		{"PUT", "/v1/search" + theirs, "writer", map[string]any{"Prefix": "x", "Context": "jobs"}, nil},
		{"GET", "/v1/job/web" + theirs, "other", nil, []string{
			"complete|token|GET /v1/job/{id}|default|web||Forbidden|Permission denied"}},
		{"PUT", "/v1/jobs" + theirs, "writer", map[string]any{"Job": job}, []string{
			"received|token|PUT /v1/jobs|default||||",
			"complete|token|PUT /v1/jobs|default|one||OK|"}},
		{"PUT", "/v1/jobs" + theirs, "other", map[string]any{"Job": job}, []string{
			"received|token|PUT /v1/jobs|default||||",
			"complete|token|PUT /v1/jobs|default|one||Forbidden|Permission denied"}},
		{"DELETE", "/v1/job/one" + theirs, "nobody", nil, []string{
			"strangers: complete||DELETE /v1/job/one||||Forbidden|Permission denied"}},
		{"DELETE", "/v1/job/one" + theirs, "unknown", nil, []string{
			"strangers: complete||DELETE /v1/job/one||||Forbidden|Permission denied"}},
		{"PUT", "/v1/jobs" + theirs, "writer", map[string]any{"Job": canary}, []string{
			"received|token|PUT /v1/jobs|default||||",
			"complete|token|PUT /v1/jobs|default|||Bad Request|"}},
		{"PUT", "/v1/no/such", "writer", nil, []string{"complete|token|PUT /v1/no/such||||Not Found|"}},
		{"GET", "/v1/client/fs/logs/" + w.alloc + theirs + "&task=t&type=stdout", "writer", nil, []string{
			"received|token|GET /v1/client/fs/logs/{id}|default|" + w.alloc + "|t||",
			"complete|token|GET /v1/client/fs/logs/{id}|default|" + w.alloc + "|t|OK|"}},
		{"PUT", "/v1/acl/token" + theirs, "management", map[string]any{"Type": "client",
			"Policies": []string{"ro"}, "AccessorID": w.node.id.Node, "SecretID": w.secrets["unknown"]}, []string{
			"received|token|PUT /v1/acl/token|default||||",
			"complete|token|PUT /v1/acl/token|default|" + string(w.node.id.Node) + "||OK|"}},
		{"PUT", "/v1/namespace", "management", map[string]any{"Name": "shop"}, []string{
			"received|token|PUT /v1/namespace|default||||",
			"complete|token|PUT /v1/namespace|shop|shop||OK|"}},
		{"DELETE", "/v1/namespace/shop", "writer", nil, []string{
			"received|token|DELETE /v1/namespace/{id}|default|shop|||",
			"complete|token|DELETE /v1/namespace/{id}|default|shop||Forbidden|Permission denied"}},
		{"PUT", "/v1/node/pools", "management", map[string]any{"Name": "gpu"}, []string{
			"received|token|PUT /v1/node/pools|default||||",
			"complete|token|PUT /v1/node/pools||gpu||OK|"}},
	} {
		said := since(t, path)
		ask(t, c.method, w.at+c.path, w.secrets[c.who], c.body)
		if got := said(); strings.Join(got, "\n") != strings.Join(c.want, "\n") {
			t.Errorf("%s %s of %s:\n%s\nwant\n%s", c.method, c.path, c.who, strings.Join(got, "\n"),
				strings.Join(c.want, "\n"))
		}
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{canary, w.secrets["writer"], w.secrets["management"], w.secrets["unknown"]} {
		if bytes.Contains(raw, []byte(secret)) {
			t.Errorf("the record has a secret")
		}
	}
}

// Given a session whose token comes in its first message, then the record has whose it is before anything runs, and
// how it ended; and one that is refused after the upgrade ends as refused.
func TestASessionIsRecordedFromItsBeginningToItsEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	w := newAudited(t, audit.Config{Path: path, MaxBytes: 1 << 20, Files: 1})
	ends := func(who string) []string {
		said := since(t, path)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		u := strings.Replace(w.at, "http", "ws", 1) + "/v1/client/allocation/" + w.alloc +
			"/exec?tty=true&ws_handshake=true&task=t&command=" + url.QueryEscape(`["shout"]`)
		c, _, err := websocket.Dial(ctx, u, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.CloseNow() }()
		send(t, c, `{"version":1,"auth_token":"`+w.secrets[who]+`"}`)
		if who == "management" {
			send(t, c, `{"stdin":{"close":true}}`)
		}
		for err == nil {
			_, _, err = c.Read(ctx)
		}
		<-w.ended // the client does not see it
		return said()
	}
	const route = "|GET /v1/client/allocation/{id}/exec|default|"
	want := []string{"strangers: received|anonymous" + route + w.alloc + "|t||",
		"received|token" + route + w.alloc + "|t||",
		"complete|token" + route + w.alloc + "|t|Switching Protocols|"}
	if got := ends("management"); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the session:\n%s", strings.Join(got, "\n"))
	}
	want[2] = "complete|token" + route + w.alloc + "|t|Forbidden|Permission denied"
	if got := ends("reader"); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("a refused one:\n%s", strings.Join(got, "\n"))
	}
}

// Given an audit log whose disk is full, when something is to be changed, then it is not done, and the answer says why;
// what changes nothing is answered, and what is refused stays so.
func TestWhatCannotBeRecordedIsNotDone(t *testing.T) {
	w := newAudited(t, audit.Config{Path: "/dev/full", MaxBytes: 1 << 20, Files: 1})
	client := func(method, path string, body any) (int, string) {
		data, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		req, err := http.NewRequestWithContext(t.Context(), method, w.at+path, bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Nomad-Token", w.secrets["writer"])
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var said bytes.Buffer
		_, _ = said.ReadFrom(resp.Body)
		return resp.StatusCode, said.String()
	}
	status, text := client("PUT", "/v1/jobs", map[string]any{"Job": webJob("unrecorded")})
	if status != http.StatusInternalServerError || !strings.Contains(text, "not done") ||
		!strings.Contains(text, "no space left on device") || !strings.Contains(text, "make room") {
		t.Errorf("%d %s", status, text)
	}
	if a := w.try("GET", "/v1/job/unrecorded", nil); a.status != http.StatusNotFound {
		t.Errorf("the job that is not recorded: %d", a.status)
	}
	if status, text := client("GET", "/v1/jobs", nil); status != http.StatusOK {
		t.Errorf("a read: %d %s", status, text)
	}
	if status, text := client("PUT", "/v1/system/gc", nil); status != http.StatusInternalServerError {
		t.Errorf("what is not allowed: %d %s", status, text)
	}
}
