package verbs

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"berth/api"
	"berth/internal/base/ids"
	"berth/internal/cli"
	"berth/internal/httpapi"
	"berth/internal/httpapi/access"
	"berth/internal/httpapi/gauges"
	"berth/internal/testkit/keepers"
	"berth/internal/testkit/memnet"
)

const page = "../../../docs/volume-verbs.md"

// A state is a story that brings the volume "v" to it.
type state struct{ name, story string }

const made = "node n1\nnode n2\ncreate v\n"

var states = []state{
	{"unknown", "node n1\nnode n2"},
	{"being created", "node n1\nnode n2\nanswer create v hold\ncreate v wait=1s\nwait 2s"},
	{"refused by its provider",
		"node n1\nnode n2\nanswer create v hold\ncreate v wait=1s\nwait 2s\nfinish create v refused"},
	{"made in another place", "node n1\nnode n2\nanswer create v elsewhere\ncreate v required=n1"},
	{"free", made},
	{"held", made + "claim v a1 n1\nreport n1 v"},
	{"releasing", made + "claim v a1 n1\nreport n1 v\nend a1"},
	{"being detached", made + "claim v a1 n1\nreport n1 v\nanswer detach v hold\nend a1\nreport n1"},
	{"on a lost node", made + "claim v a1 n1\nreport n1 v\nend a1\ndown n1"},
	{"being expanded", made + "answer expand v hold\nexpand v size=2000 wait=1s\nwait 2s"},
	{"being copied", made + "answer snapshot v hold\nsnapshot v wait=1s\nwait 2s"},
	{"being deleted", made + "answer delete v hold\ndelete v wait=1s\nwait 2s"},
	{"without its plugin", made + "failing n1\nfailing n2"},
	{"releasing without its plugin", made + "claim v a1 n1\nreport n1 v\nend a1\nreport n1 v\nfailing n1\nfailing n2"},
	{"of another provider", "node n1 provider=one\nnode n2 provider=one\ncreate v\nserves n1 two\nserves n2 two"},
}

// A verb is what a person types, and the request that asks for the same.
type verb struct {
	title   string
	command []string
	method  string
	path    string
	body    any
}

const volumeFile = `id = "v"
name = ""
type = "csi"
plugin_id = "p"
capacity_min = %s
capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}
`

func volume(change func(*api.CSIVolume)) *api.CSIVolumeRegisterRequest {
	v := &api.CSIVolume{
		ID:                   "v",
		PluginID:             "p",
		RequestedCapacityMin: 1000,
		RequestedCapabilities: []*api.CSIVolumeCapability{{
			AccessMode:     "single-node-writer",
			AttachmentMode: "file-system",
		}},
	}
	if change != nil {
		change(v)
	}
	return &api.CSIVolumeRegisterRequest{Volumes: []*api.CSIVolume{v}}
}

const one = "/v1/volume/csi/v"

var verbs = []verb{
	{"create", []string{"volume", "create", "same.hcl"}, "PUT", one + "/create", volume(nil)},
	{"create with a larger capacity_min", []string{"volume", "create", "larger.hcl"}, "PUT", one + "/create",
		volume(func(v *api.CSIVolume) { v.RequestedCapacityMin = 3000 })},
	{"register", []string{"volume", "register", "register.hcl"}, "PUT", one,
		volume(func(v *api.CSIVolume) { v.ExternalID = "x-v" })},
	{"expand", []string{"volume", "expand", "-size", "3000", "v"}, "PUT", one + "/expand",
		&api.CSIVolumeExpandRequest{CapacityMin: 3000}},
	{"snapshot create", []string{"volume", "snapshot", "create", "v", "cut"}, "PUT", "/v1/volumes/snapshot",
		&api.CSISnapshotCreateRequest{Snapshots: []*api.CSISnapshot{{SourceVolumeID: "v", Name: "cut"}}}},
	{"detach", []string{"volume", "detach", "v", "n1"}, "DELETE", one + "/detach?node=n1", nil},
	{"detach -node-is-dead", []string{"volume", "detach", "-yes", "-node-is-dead", "it burnt", "v", "n1"}, "DELETE",
		one + "/detach?node=n1&attest=it+burnt", nil},
	{"deregister", []string{"volume", "deregister", "v"}, "DELETE", one, nil},
	{"deregister -force", []string{"volume", "deregister", "-yes", "-force", "-reason", "it must go", "v"}, "DELETE",
		one + "?force=true&reason=it+must+go", nil},
	{"delete", []string{"volume", "delete", "v"}, "DELETE", one + "/delete", nil},
	{"plugin rebind", []string{"plugin", "rebind", "-yes", "-provider", "two", "p"}, "PUT", "/v1/plugin/csi/p/rebind",
		&api.CSIPluginRebindRequest{Provider: "two"}},
}

type self struct{}

func (self) Describe() (map[string]any, map[string]map[string]string) { return nil, nil }
func (self) Gauges(context.Context) []gauges.Gauge                    { return nil }
func (self) NodeID() ids.Node                                         { return "" }
func (self) Health(context.Context) map[string]error                  { return nil }

// on plays a story and hands over the network on which something is asked for then.
func on(t *testing.T, story string, ask func(t *testing.T, stage *keepers.Stage, s *memnet.Listener)) {
	synctest.Test(t, func(t *testing.T) {
		stage := keepers.NewStage(t)
		stage.Play(story)
		h := httpapi.New(httpapi.Config{
			Servers: stage.Conn(),
			Region:  "global",
			Log:     slog.New(slog.DiscardHandler),
			Self:    self{},
		})
		s := memnet.Listen()
		web := &httptest.Server{Listener: s, Config: &http.Server{Handler: settled(h.Handler(access.Network{}))}}
		web.Start()
		defer web.Close()
		ask(t, stage, s)
		stage.Play("leader lost")
	})
}

// settled serves each request when everybody else has done what can be done: what a command reads after it has written
// is one thing then.
func settled(h http.Handler) http.Handler {
	one := make(chan struct{}, 1) // waits at a time
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		one <- struct{}{}
		synctest.Wait()
		<-one
		h.ServeHTTP(w, r)
	})
}

// request makes the verb's request as clients do that know nothing of Berth, and returns the status with the text of an
// error. Such a client waits for the end: what has none within a minute is not answered.
func (v verb) request(t *testing.T, s *memnet.Listener) (status, text string) {
	t.Helper()
	var body io.Reader = http.NoBody
	if v.body != nil {
		raw, err := json.Marshal(v.body)
		if err != nil {
			t.Fatal(err)
		}
		body = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(t.Context(), v.method, "http://127.0.0.1:4646"+v.path, body)
	if err != nil {
		t.Fatal(err)
	}
	c := &http.Client{Transport: &http.Transport{DialContext: s.Dial, DisableKeepAlives: true}}
	r, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	if r.StatusCode == http.StatusOK {
		return "200", ""
	}
	return fmt.Sprint(r.StatusCode), string(raw)
}

// files are volume files.
var files = map[string]string{
	"same.hcl":     fmt.Sprintf(volumeFile, `"1000"`),
	"larger.hcl":   fmt.Sprintf(volumeFile, `"3000"`),
	"register.hcl": fmt.Sprintf(volumeFile, `"1000"`) + "external_id = \"x-v\"\n",
}

// typed runs a command and returns its exit code and what it writes.
func typed(t *testing.T, s *memnet.Listener, command []string) (code int, text string) {
	t.Helper()
	var out bytes.Buffer
	args := slices.Clone(command)
	for i, a := range args {
		if content, ok := files[a]; ok {
			args[i] = filepath.Join(t.TempDir(), a)
			if err := os.WriteFile(args[i], []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	app := cli.New(cli.Options{
		Stdin:  strings.NewReader(""),
		Stdout: &out,
		Stderr: &out,
		Getenv: func(name string) string {
			return map[string]string{"BERTH_ADDR": "http://127.0.0.1:4646"}[name]
		},
		Version: "1",
		Dial:    s.Dial,
	})
	code = app.Run(t.Context(), args)
	return code, out.String()
}

var snapshots = regexp.MustCompile(`cut-[0-9a-f]{8}`)

// inOneLine makes a cell of what a command wrote.
func inOneLine(text string) string {
	var lines []string
	text = snapshots.ReplaceAllString(keepers.Readable(text), "cut-<id>")
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, strings.ReplaceAll(line, "|", `\|`))
		}
	}
	return strings.Join(lines, "; ")
}

// TestWhatMayBeAskedOfAVolume: every verb in every state, over the API and the command line. docs/volume-verbs.md is
// the result; -update writes it.
func TestWhatMayBeAskedOfAVolume(t *testing.T) {
	var b strings.Builder
	b.WriteString(head)
	for _, v := range verbs {
		fmt.Fprintf(&b, "\n## %s\n\n| the volume is | HTTP | exit code | what is said |\n|---|---|---|---|\n", v.title)
		for _, st := range states {
			var status, refused, said string
			var code int
			on(t, st.story, func(t *testing.T, _ *keepers.Stage, s *memnet.Listener) {
				status, refused = v.request(t, s)
			})
			on(t, st.story, func(t *testing.T, _ *keepers.Stage, s *memnet.Listener) {
				code, said = typed(t, s, v.command)
			})
			// Who names no time has the provider's end, and a warning; the command goes on to the node's.
			grows := strings.Contains(said, "; the file system on node n1 follows")
			if !grows && (status == "200") != (code == 0) || grows && (status != "200" || code != 1) {
				t.Errorf("%s of a volume that is %s: the API answers %s %q, the command ends with %d: %s", v.title,
					st.name, status, refused, code, said)
			}
			fmt.Fprintf(&b, "| %s | %s | %d | %s |\n", st.name, status, code, inOneLine(said))
		}
	}
	if keepers.Updating() {
		if err := os.WriteFile(page, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("docs/volume-verbs.md is not what happens; go test ./internal/testkit/verbs -update writes it:\n%s",
			diff)
	}
}

// TestACommandFollowsWhatWasAccepted: given a provider that takes a quarter of a minute, when a verb is asked for, then
// the command says that it is accepted, and ends when the work does; with -detach it ends at once.
func TestACommandFollowsWhatWasAccepted(t *testing.T) {
	const nodes = "node n1\n"
	for _, c := range []struct{ name, story, command, call, ends string }{
		{"create", nodes + "answer create v hold", "volume create same.hcl", "create v", `Volume "v" created`},
		{"expand", nodes + "create v\nanswer expand v hold", "volume expand -size 3000 v", "expand v",
			`Volume "v" expanded`},
		{"snapshot", nodes + "create v\nanswer snapshot v hold", "volume snapshot create v cut", "snapshot v", "s-x-v"},
		{"delete", nodes + "create v\nanswer delete v hold", "volume delete v", "delete v", `Volume "v" deleted`},
	} {
		for _, how := range []string{"", "-detach"} {
			t.Run(c.name+how, func(t *testing.T) {
				on(t, c.story, func(t *testing.T, stage *keepers.Stage, s *memnet.Listener) {
					args := strings.Fields(c.command)
					if at := slices.Index(args, c.name) + 1; how != "" && c.name != "snapshot" {
						args = slices.Insert(args, at, how)
					} else if how != "" {
						args = slices.Insert(args, at+1, how)
					}
					began, ended := time.Now(), make(chan struct{})
					var code int
					var said string
					go func() {
						defer close(ended)
						code, said = typed(t, s, args)
					}()
					time.Sleep(15 * time.Second)
					synctest.Wait()
					if how != "" {
						<-ended
						if time.Since(began) > 15*time.Second || code != 0 || strings.Contains(said, c.ends) {
							t.Errorf("exit code %d: %s", code, said)
						}
					}
					stage.Play("finish " + c.call)
					<-ended
					if code != 0 || !strings.Contains(said, "is accepted, and goes on by itself: ") ||
						how == "" && !strings.Contains(said, c.ends) {
						t.Errorf("exit code %d: %s", code, said)
					}
				})
			})
		}
	}
}

const head = `# What may be asked of a volume

Every verb in every state of the volume that it is about: the status of the HTTP API, the exit code of the command, and
what the command says. A test plays it against the endpoints, the HTTP surface and the command line, and writes this
page: ` + "`go test ./internal/testkit/verbs -update`" + `. A request of the API that names no time is answered when
the work has ended, as clients expect that know nothing of Berth; the command line waits a few seconds, then follows. The
nodes here never grow a file system: what is said of a volume that has become larger is what they leave open. <id> and
<time> stand for what differs from run to run.

The law behind it is ` + "`May`" + ` in internal/server/validate, over the phase of the record; who uses a volume, and so
stands in the way, is answered by internal/server/holders.
`
