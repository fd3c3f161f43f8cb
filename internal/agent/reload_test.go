package agent

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/internal/httpapi"
	"berth/internal/server"
	"berth/internal/testkit/certificates"
)

// reloading is an agent that runs by a file, and its log.
func reloading(t *testing.T, text string) (path string, a *Agent, log *bytes.Buffer) {
	path = write(t, t.TempDir(), "a.hcl", text)
	cfg := parse(t, "-config", path)
	log = &bytes.Buffer{}
	a = &Agent{cfg: cfg, level: level(cfg.LogLevel)}
	a.log = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: a.level}))
	a.server = server.New(a.serverConfig())
	surface, err := a.surfaceConfig()
	if err != nil {
		t.Fatal(err)
	}
	a.http = httpapi.New(surface)
	return path, a, log
}

// Given an agent that runs, when its file changes and it is asked to read it again, then it takes over the level of its
// log, the ages of what is over and the bounds of connections, and names each other setting that has changed as one
// that waits for a restart.
func TestAReloadTakesOverWhatItCanAndNamesTheRest(t *testing.T) {
	path, a, log := reloading(t, base)
	have := *a.cfg
	changed := base + `
log_level  = "debug"
datacenter = "dc9"
limits { http_max_conns = 70 }
server { job_gc_threshold = "9m" }
client { meta { rack = "r1" } }
`
	changed = strings.Replace(changed, "server { enabled = true }\nclient { enabled = true }", "", 1)
	changed = strings.Replace(changed, "server { job", "server {\n enabled = true\n job", 1)
	changed = strings.Replace(changed, "client { meta { rack = \"r1\" } }",
		"client {\n enabled = true\n meta { rack = \"r1\" }\n}", 1)
	changed = strings.Replace(changed, "\"9m\" }", "\"9m\"\n}", 1)
	if err := os.WriteFile(path, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	a.reload(&have)
	if !a.log.Enabled(t.Context(), slog.LevelDebug) || levelName(a.level) != "debug" {
		t.Errorf("the level of the log is %s", levelName(a.level))
	}
	var applied, left []string
	for line := range strings.Lines(log.String()) {
		key := strings.Fields(line[strings.Index(line, " key=")+5:])[0]
		if strings.Contains(line, "level=INFO") {
			applied = append(applied, key)
		} else if strings.Contains(line, "level=WARN") && strings.Contains(line, "needs a restart") {
			left = append(left, key)
		}
	}
	want := []string{"log_level", "server.job_gc_threshold", "limits.http_max_conns"}
	if !slices.Equal(applied, want) {
		t.Errorf("taken over: %v", applied)
	}
	if want := []string{"datacenter", "client.meta"}; !slices.Equal(left, want) {
		t.Errorf("left: %v\n%s", left, log)
	}
	for _, now := range []string{
		"jobs=9m0s evals=1h0m0s nodes=24h0m0s deployments=1h0m0s every=5m0s",
		"in_all=70 per_client=35",
	} {
		if !strings.Contains(log.String(), now) {
			t.Errorf("nothing says %s: %s", now, log)
		}
	}
	log.Reset()
	a.reload(&have)
	for _, key := range applied {
		if strings.Contains(log.String(), key) {
			t.Errorf("what is taken over already is taken over again: %s", log)
		}
	}
}

// Given a file that is not right any more, or one that is as it was, when the agent is asked to read it again, then it
// says so and goes on as before.
func TestAReloadOfAWrongFileChangesNothing(t *testing.T) {
	path, a, log := reloading(t, base)
	have := *a.cfg
	a.reload(&have)
	if !strings.Contains(log.String(), "nothing in it has changed") {
		t.Errorf("of the same file: %s", log)
	}
	if err := os.WriteFile(path, []byte(base+"log_level = \"debug\"\nlog_colour = \"x\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	log.Reset()
	a.reload(&have)
	if got := log.String(); !strings.Contains(got, "level=WARN") || !strings.Contains(got, "log_colour") ||
		levelName(a.level) != "info" {
		t.Errorf("of a wrong file: %s, level %s", got, levelName(a.level))
	}
}

// Given an agent with a token, when another is in its file, by the same name or by another, then a reload names that
// once; the running agent goes on with the token that it has.
func TestAReloadNamesAnotherToken(t *testing.T) {
	dir := t.TempDir()
	first, other := strings.Repeat("first", 8), strings.Repeat("other", 8)
	token := write(t, dir, "token", first)
	config := func(token string) string { return base + "api { token_file = \"" + token + "\" }\n" }
	path, a, log := reloading(t, config(token))
	have := *a.cfg
	write(t, dir, "token", other)
	a.reload(&have)
	if n := strings.Count(log.String(), "key=api.token_file"); n != 1 {
		t.Errorf("another token by the same name is named %d times: %s", n, log)
	}
	log.Reset()
	if err := os.WriteFile(path, []byte(config(write(t, dir, "second", other))), 0o600); err != nil {
		t.Fatal(err)
	}
	a.reload(&have)
	if n := strings.Count(log.String(), "key=api.token_file"); n != 1 {
		t.Errorf("another token by another name is named %d times: %s", n, log)
	}
	if strings.Contains(log.String(), other) || a.cfg.token.Reveal() != first {
		t.Errorf("the agent took it over, or shows it: %s", log)
	}
}

// Given an agent without root, and one whose kernel cannot keep tasks to their own sockets, when it starts, then a
// warning says what it cannot do.
func TestAnAgentSaysWhatItsNodeCannotDo(t *testing.T) {
	for _, c := range []struct {
		uid    int
		scopes bool
		want   string
	}{{0, true, ""}, {1000, true, "uid=1000"}, {0, false, "Linux 6.12"}} {
		var log bytes.Buffer
		warnOfNode(slog.New(slog.NewTextHandler(&log, nil)), c.uid, c.scopes)
		if got := log.String(); (c.want == "") != (got == "") || !strings.Contains(got, c.want) ||
			c.want != "" && !strings.Contains(got, "level=WARN") {
			t.Errorf("user %d, scopes %v: %q, want %q in a warning", c.uid, c.scopes, got, c.want)
		}
	}
}

// Given ages of garbage collection in a file, when it is read, then the server forgets by them; those that mean nothing
// here, and those that are no ages, are refused by name with the way out.
func TestAgesOfGarbageCollectionAreSettings(t *testing.T) {
	server := func(line string) string {
		return strings.Replace(base, "server { enabled = true }", "server {\n enabled = true\n"+line+"\n}", 1)
	}
	ages := server("job_gc_interval = \"2m\"\njob_gc_threshold = \"3h\"\n" +
		"eval_gc_threshold = \"4m\"\nnode_gc_threshold = \"5h\"")
	cfg := parse(t, "-config", write(t, t.TempDir(), "a.hcl", ages))
	a := &Agent{log: slog.New(slog.DiscardHandler), cfg: cfg}
	got := a.serverConfig().GC
	if got.Every != 2*time.Minute || got.Jobs != 3*time.Hour || got.Evals != 4*time.Minute || got.Nodes != 5*time.Hour {
		t.Errorf("%+v", got)
	}
	for line, want := range map[string]string{
		`root_key_gc_interval = "1ms"`:         "leave it out for 10m0s",
		`root_key_rotation_threshold = "1m"`:   "leave it out for no other key by age",
		`max_variables = -1`:                   "-1 is no bound",
		`csi_volume_claim_gc_threshold = "1h"`: "claims end by what nodes report",
		`batch_eval_gc_threshold = "24h"`:      "write eval_gc_threshold",
		`job_gc_threshold = "1ms"`:             "leave it out for 4h0m0s",
	} {
		path := write(t, t.TempDir(), "a.hcl", server(line))
		if _, err := Parse([]string{"-config", path}, os.Stderr); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", line, err)
		}
	}
}

// Given an agent whose port shows a certificate, when other files are named or stand by the same names, then a reload
// has the port show them; and files that do not fit together leave it as it was.
func TestAReloadTakesOverCertificates(t *testing.T) {
	dir := t.TempDir()
	o := certificates.NewOffice(t, dir, "ca")
	const year = 365 * 24 * time.Hour
	config := func(p certificates.Pair) string {
		return base + fmt.Sprintf("tls {\n http = true\n cert_file = %q\n key_file = %q\n}\n", p.Cert, p.Key)
	}
	first := o.Issue(t, "first", year, "first.example")
	path, a, log := reloading(t, config(first))
	have := *a.cfg
	guard := a.cfg.guard()
	if guard.Named == nil || !guard.Named("first.example") {
		t.Fatal("the certificate's name is not the agent's")
	}
	o.Issue(t, "first", year, "again.example")
	a.reload(&have)
	if !guard.Named("again.example") || guard.Named("first.example") ||
		strings.Count(log.String(), `msg=reloaded key=tls.cert_file`) != 1 {
		t.Errorf("another certificate by the same name: %s", log)
	}
	log.Reset()
	second := o.Issue(t, "second", time.Hour, "second.example")
	if err := os.WriteFile(path, []byte(config(second)), 0o600); err != nil {
		t.Fatal(err)
	}
	a.reload(&have)
	if !guard.Named("second.example") || !strings.Contains(log.String(), "ends soon") {
		t.Errorf("another certificate by another name: %s", log)
	}
	log.Reset()
	a.reload(&have)
	if !strings.Contains(log.String(), "nothing in it has changed") {
		t.Errorf("what is taken over already is taken over again: %s", log)
	}
	wrong := certificates.Pair{Cert: first.Cert, Key: second.Key}
	if err := os.WriteFile(path, []byte(config(wrong)), 0o600); err != nil {
		t.Fatal(err)
	}
	a.reload(&have)
	if !guard.Named("second.example") || !strings.Contains(log.String(), "is not reloaded") {
		t.Errorf("a key of another certificate: %s", log)
	}
}
