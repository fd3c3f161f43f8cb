package httpapi_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"berth/api"
	"berth/internal/httpapi/absent"
	"berth/internal/model/plugin"
	"berth/internal/wire"
)

// replies are exchanges as an unmodified client saw them: request, status, headers and body.
const replies = "../../api/testdata/replies"

// sample is one observed exchange. Its name is METHOD_path.STATUS.
type sample struct {
	name    string
	Request string
	Sent    any `json:"request_body"`
	Status  string
	Headers map[string]string
	Body    any
}

func readSample(t testing.TB, name string) *sample {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(replies, name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	s := &sample{name: name}
	if err := json.Unmarshal(data, s); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return s
}

// samples are all of them.
func samples(t testing.TB) (out []*sample) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(replies, "*.json"))
	if err != nil || len(files) < 100 {
		t.Fatalf("%d observed replies: %v", len(files), err)
	}
	for _, f := range files {
		out = append(out, readSample(t, strings.TrimSuffix(filepath.Base(f), ".json")))
	}
	slices.SortStableFunc(out, func(a, b *sample) int { return strings.Compare(a.order(), b.order()) })
	return out
}

// order puts what is read before what is written, and last what ends the job that others look at.
func (s *sample) order() string {
	switch {
	case s.name == "PUT_operator_snapshot.200":
		return "3" // after it the state is another
	case s.name == "DELETE_job_ID.200", s.name == "DELETE_namespace_ID.200", s.name == "PUT_allocation_ID_stop.200":
		return "2"
	case s.read():
		return "0"
	}
	return "1"
}

func (s *sample) read() bool {
	return strings.HasPrefix(s.name, "GET_") && s.status() != http.StatusInternalServerError
}

func (s *sample) status() int {
	n, err := strconv.Atoi(s.Status[:3])
	if err != nil {
		panic("the status of " + s.name + " is " + s.Status)
	}
	return n
}

// ours says what stands in the test's world for the things of a recording, by the place of their names in a path.
func (w *world) ours(path string) string {
	for _, c := range []struct{ at, name string }{
		{`/v1/(?:client/)?allocation/`, w.alloc}, {`/v1/client/fs/[a-z]+/`, w.alloc}, {`/v1/evaluation/`, w.eval},
		{`/v1/node/`, string(w.node.id.Node)}, {`node(?:_id)?=`, string(w.node.id.Node)}, {`/v1/volume/csi/`, "db"},
		{`/v1/plugin/csi/`, "disk"}, {`plugin_id=`, "disk"}, {`snapshot_id=`, "snap-s1"},
		{`/v1/allocations\?prefix=`, w.alloc[:8]}, {`/v1/nodes\?prefix=`, string(w.node.id.Node)[:8]},
		{`/v1/plugins\?prefix=`, "di"}, {`/v1/jobs\?per_page=20&prefix=`, "we"}, {`submission\?.*version=`, "0"},
	} {
		at := regexp.MustCompile(`(` + c.at + `)([^/?&]+)`)
		if path != "/v1/node/pools" {
			path = at.ReplaceAllString(path, "${1}"+c.name)
		}
	}
	if !strings.HasSuffix(path, "/dispatch?namespace=default") {
		path = regexp.MustCompile(`/v1/job/(can|par)\b`).ReplaceAllString(path, "/v1/job/web")
	}
	if strings.HasSuffix(path, "?related=true") {
		path = "/v1/evaluation/" + w.blocked + "?related=true" // the observed one found no node, too
	}
	return strings.ReplaceAll(path, "/v1/namespace/dev", "/v1/namespace/default")
}

// edited are the requests that are not sent as they were recorded, each with the reason.
var edited = []struct {
	sample, reason string
	path           string             // instead of the recorded one
	body           func(w *world) any // instead of the recorded one
	token          bool               // it shows one
}{
	{sample: "GET_acl_token_self.200", token: true, reason: "what was shown is not recorded"},
	{sample: "PUT_acl_role.200", reason: "the name is taken", body: func(*world) any {
		return map[string]any{"Name": "r2", "Policies": []any{map[string]any{"Name": "ro"}}}
	}},
	{sample: "GET_namespace_ID.404", path: "/v1/namespace/nope", reason: "default is there"},
	{sample: "DELETE_namespace_ID.200", path: "/v1/namespace/dev", reason: "by then it was made, and default stays"},
	{sample: "DELETE_namespace_ID.500", path: "/v1/namespace/nope", reason: "default is there"},
	{sample: "DELETE_volume_csi_ID.200", path: "/v1/volume/csi/idle?force=false", reason: "db is in use"},
	{sample: "DELETE_volume_csi_ID_delete.200", path: "/v1/volume/csi/idle2/delete", reason: "db is in use"},
	{sample: "GET_job_ID_evaluations.200", path: "/v1/job/web/evaluations", reason: "nothing would end the wait"},
	{sample: "GET_client_fs_stat_ID.200", path: "/v1/client/fs/stat/ALLOC?path=/alloc/data/readme",
		reason: "the node of the test has one file"},
	{sample: "GET_client_fs_cat_ID.200", path: "/v1/client/fs/cat/ALLOC?path=/alloc/data/readme",
		reason: "the node of the test has one file"},
	{sample: "GET_client_fs_readat_ID.200", reason: "the node of the test has one file",
		path: "/v1/client/fs/readat/ALLOC?path=/alloc/data/readme&limit=-1&offset=0"},
	{sample: "PUT_client_allocation_ID_signal.200", reason: "the node of the test knows one signal",
		body: func(*world) any { return map[string]any{"Task": "", "Signal": "SIGHUP"} }},
	{sample: "GET_volumes_snapshot.500", path: "/v1/volumes/snapshot?per_page=30&plugin_id=plain",
		reason: "another plugin can take snapshots"},
	{sample: "PUT_volumes_snapshot.500", reason: "the volume is another", body: func(*world) any {
		return map[string]any{"Snapshots": []any{map[string]any{"SourceVolumeID": "plain", "Name": "s2"}}}
	}},
	{sample: "PUT_volume_csi_ID_create.500", path: "/v1/volume/csi/refused/create", reason: "the plugin is another",
		body: volumeOf("refused", "")},
	{sample: "PUT_jobs.200", reason: "the recorded job has services", body: jobOf("other")},
	{sample: "PUT_jobs.500", reason: "the recorded job has services", body: func(*world) any {
		return map[string]any{"Job": webJob("web"), "EnforceIndex": true, "JobModifyIndex": 9999}
	}},
	{sample: "PUT_validate_job.200", reason: "the recorded job has services", body: jobOf("other")},
	{sample: "PUT_job_ID_plan.200", path: "/v1/job/planned/plan", reason: "the recorded job has services, and was new",
		body: func(*world) any { return map[string]any{"Job": webJob("planned"), "Diff": true} }},
	{sample: "PUT_volume_csi_ID_create.200", path: "/v1/volume/csi/db2/create", reason: "the plugin is another",
		body: volumeOf("db2", "")},
	{sample: "PUT_volume_csi_ID.200", path: "/v1/volume/csi/reg", reason: "the plugin is another",
		body: volumeOf("reg", "ext-reg")},
	{sample: "PUT_volumes_snapshot.200", reason: "the volume is another", body: func(*world) any {
		return map[string]any{"Snapshots": []any{map[string]any{"SourceVolumeID": "db", "Name": "s2"}}}
	}},
	{sample: "PUT_node_ID_eligibility.200", reason: "the observed node had been ineligible, and there was a system job",
		body: eligibleAgain},
	{sample: "PUT_operator_snapshot.200", reason: "a state is saved in a form of our own", body: func(w *world) any {
		return w.must("GET", "/v1/operator/snapshot", nil).body
	}},
}

// eligibleAgain is the request for a node that was made ineligible.
func eligibleAgain(w *world) any {
	system := webJob("everywhere")
	system["Type"] = "system"
	w.submit(system)
	w.must("PUT", "/v1/node/"+string(w.node.id.Node)+"/eligibility", map[string]any{"Eligibility": "ineligible"})
	return map[string]any{"Eligibility": "eligible"}
}

func jobOf(id string) func(*world) any {
	return func(*world) any { return map[string]any{"Job": webJob(id)} }
}

func volumeOf(id, external string) func(*world) any {
	return func(w *world) any {
		v := withSecrets(w.t, volumeSpec(id))
		v["ExternalID"] = external
		return map[string]any{"Volumes": []any{v}}
	}
}

// withSecrets encodes a volume with its secrets in clear, as the command line sends it.
func withSecrets(t testing.TB, v *api.CSIVolume) map[string]any {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	out["Secrets"] = map[string]string(v.Secrets)
	return out
}

// replay asks what was asked then.
func (w *world) replay(s *sample) *answer {
	w.t.Helper()
	method, path, _ := strings.Cut(s.Request, " ")
	path, body := w.ours(path), s.Sent
	var header []string
	for _, e := range edited {
		if e.sample != s.name {
			continue
		}
		if e.path != "" {
			path = strings.ReplaceAll(e.path, "ALLOC", w.alloc)
		}
		if e.body != nil {
			body = e.body(w)
		}
		if e.token {
			header = []string{"X-Nomad-Token", w.secret}
		}
	}
	path = regexp.MustCompile(`index=\d+(&wait=\d+ms)?&?`).ReplaceAllString(path, "")
	switch {
	case s.status() == http.StatusForbidden: // recorded with access control lists, and without a token
		return w.guarded().try(method, path, body, header...)
	case s.name == "GET_acl_tokens.400": // recorded where they are off
		return w.listsOff().try(method, path, body, header...)
	}
	return w.try(method, path, body, header...)
}

// Given every exchange that an unmodified client had with the system that we are compatible with, when we are asked the
// same, then status, headers and every member with its JSON type are the same, but for a list of differences. Each of
// these has a reason; a difference without one fails, and so does a reason without a difference.
func TestRecordedRequestsAreAnsweredAsObserved(t *testing.T) {
	want := readDifferences(t)
	w := newWorld(t)
	got, only := map[string]bool{}, true
	for _, s := range samples(t) {
		if only && !s.read() {
			w.addForWrites()
			only = false
		}
		a := w.replay(s)
		if strings.Contains(string(a.body), canary) {
			t.Errorf("%s: a secret is shown: %s", s.name, a.body)
		}
		for _, d := range s.differences(a) {
			got[s.name+d] = true
		}
	}
	for _, d := range slices.Sorted(maps.Keys(got)) {
		if want[d] == "" {
			t.Errorf("no reason for a difference: %s", d)
		}
	}
	for _, d := range slices.Sorted(maps.Keys(want)) {
		if !got[d] {
			t.Errorf("no difference for a reason: %s (%s)", d, want[d])
		}
	}
}

// TestWhatAReasonCallsNotBuiltIsNot: a reason that says so names what is refused with these words: a path of the API,
// or an attribute of a job by the reference. What has been built since takes its reasons with it.
func TestWhatAReasonCallsNotBuiltIsNot(t *testing.T) {
	reference, err := os.ReadFile("../../docs/reference/jobspec.md")
	if err != nil {
		t.Fatal(err)
	}
	_, attributes, _ := strings.Cut(string(reference), "## Not built")
	attributes, _, _ = strings.Cut(attributes, "## Without effect")
	says := regexp.MustCompile(`^(.+?) (?:is|are) not built`)
	named := 0
	for line, reason := range readDifferences(t) {
		what := says.FindStringSubmatch(reason)
		if what == nil {
			if strings.Contains(reason, "not built") || strings.Contains(reason, " yet") {
				t.Errorf("%s: say what it is that is not built, so that it can be looked up: %s", line, reason)
			}
			continue
		}
		named++
		at := func(a absent.Answer) bool {
			return strings.Contains(a.Text, what[1]+" is not built") ||
				strings.Contains(a.Text, what[1]+" are not built")
		}
		if what[1] == "what is asked for" {
			at = func(a absent.Answer) bool { return strings.HasSuffix(line, "is 501") }
		}
		if !slices.ContainsFunc(absent.Answers(), at) &&
			!strings.Contains(attributes, "\n| `"+strings.TrimPrefix(what[1], "the attribute ")+"` |") {
			t.Errorf("%s: nothing refuses %q as not built: %s", line, what[1], reason)
		}
	}
	if named < 8 {
		t.Errorf("%d differences are of what is not built", named)
	}
}

// addForWrites lets the node have a plugin that can do nothing but make volumes, and adds volumes of it and of the
// other.
func (w *world) addForWrites() {
	w.t.Helper()
	w.createVolume("idle")
	w.createVolume("idle2")
	w.addLaunching()
	for _, p := range testInfo(w.node.id.Node).CSI {
		p.Plugin, p.Provider = "plain", "plain.example"
		p.Capabilities = plugin.Capabilities{ControllerService: true, CreateDelete: true}
		w.node.info.CSI = append(w.node.info.CSI, p)
	}
	if _, err := wire.NodeRegister.Call(w.t.Context(), w.conn,
		&wire.NodeRegisterRequest{NodeIdentity: w.node.id, Info: w.node.info}); err != nil {
		w.t.Fatal(err)
	}
	w.place(w.node.id.Node, w.node.info.CSI)
	until(w.rig, "/v1/plugin/csi/plain", func(p *api.CSIPlugin) bool { return p.ControllersHealthy == 1 })
	v := withSecrets(w.t, volumeSpec("plain"))
	v["PluginID"] = "plain"
	w.must("PUT", "/v1/volume/csi/plain/create?wait=5s", map[string]any{"Volumes": []any{v}})
}

// addLaunching adds the two jobs that launch others in the recorded story.
func (w *world) addLaunching() {
	w.t.Helper()
	for id, block := range map[string]map[string]any{
		"par": {"ParameterizedJob": map[string]any{"MetaOptional": []any{"m"}}},
		"per": {"Periodic": map[string]any{"Specs": []any{"0 4 * * *"}}},
	} {
		j := webJob(id)
		j["Type"] = "batch"
		maps.Copy(j, block)
		w.must("PUT", "/v1/jobs", map[string]any{"Job": j})
	}
}

// readDifferences reads the list: a line that begins with "# " is the reason for the lines after it.
func readDifferences(t *testing.T) map[string]string {
	t.Helper()
	data, err := os.ReadFile("testdata/differences.txt")
	if err != nil {
		t.Fatal(err)
	}
	out, reason := map[string]string{}, ""
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSuffix(line, "\n")
		switch text, is := strings.CutPrefix(line, "# "); {
		case is:
			reason = text
		case line == "":
			reason = ""
		case reason == "":
			t.Fatalf("a difference has no reason: %s", line)
		case out[line] != "":
			t.Fatalf("a difference stands twice: %s", line)
		default:
			out[line] = reason
		}
	}
	return out
}

// number is what texts differ in by the time of day.
var number = regexp.MustCompile(`[0-9]+`)

// differences says where an answer is not what was observed. Of an answer with another status the rest is not held
// against it: it answers something else.
func (s *sample) differences(a *answer) (out []string) {
	if a.status != s.status() {
		return []string{fmt.Sprintf(" status: was %d, is %d", s.status(), a.status)}
	}
	for _, h := range []string{"Content-Type", "Vary", "Digest", "X-Nomad-Index", "X-Nomad-KnownLeader",
		"X-Nomad-LastContact"} {
		was, there := s.Headers[strings.ToLower(h)]
		is := a.header.Values(h)
		switch {
		case there && len(is) == 0:
			out = append(out, fmt.Sprintf(" header %s: is lacking", h))
		case !there && len(is) > 0:
			out = append(out, fmt.Sprintf(" header %s: is ours alone", h))
		case there && strings.HasPrefix(h, "X-"):
		case there && h == "Digest":
			sum := sha256.Sum256(a.body)
			if is[0] != "sha-256="+base64.StdEncoding.EncodeToString(sum[:]) {
				out = append(out, " header Digest: is not that of the body, in the observed form")
			}
		case there && h == "Vary" && slices.Contains(is, was): // recorded is the last of several
		case there && was != strings.Join(is, ", "):
			out = append(out, fmt.Sprintf(" header %s: was %s, is %s", h, was, strings.Join(is, ", ")))
		}
	}
	if !strings.HasPrefix(a.header.Get("Content-Type"), "application/json") {
		was, text := s.Body.(string)
		same := text && number.ReplaceAllString(strings.TrimSpace(was), "N") ==
			number.ReplaceAllString(string(a.body), "N")
		if a.status != http.StatusOK && !same {
			out = append(out, " text: is another")
		}
		return out
	}
	observed := s.whole()
	was, is := shape{}, shape{}
	was.add("", observed)
	var body any
	if err := json.Unmarshal(a.body, &body); err != nil {
		return append(out, " body: is no JSON")
	}
	is.add("", body)
	return append(out, was.against(is, fmt.Sprint(observed) == fmt.Sprint(s.Body))...)
}

// whole is the body, what was cut off from a long one put right: it ends with the last member that was recorded whole.
func (s *sample) whole() any {
	text, cut := s.Body.(string)
	if !cut || s.name == "GET_status_leader.200" {
		return s.Body
	}
	for i := len(text); i > 0; i-- {
		var v any
		if json.Unmarshal([]byte(text[:i]+closing(text[:i])), &v) == nil {
			return v
		}
	}
	return s.Body
}

// closing ends the lists and objects that are open at the end of a text.
func closing(text string) (out string) {
	quoted := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{':
			out = "}" + out
		case c == '[':
			out = "]" + out
		case c == '}' || c == ']':
			out = out[1:]
		}
	}
	return out
}

// free are members whose own members are names of things: any one of them stands for all.
var free = regexp.MustCompile(
	`\.(Attributes|Meta|Drivers|HostVolumes|HostNetworks|Links|Tasks|TaskLifecycles|TaskResources|TaskStates|Summary|` +
		`NodesAvailable|Config|Env|Tags|Parameters|Context|Details|Segments|DesiredTGUpdates|Controllers|Nodes|` +
		`CSINodePlugins|CSIControllerPlugins|QueuedAllocations|Volumes|ReadAllocs|WriteAllocs|Scores|FailedTGAllocs|` +
		`ClassFiltered|ConstraintFiltered|DimensionExhausted|Updates|Pids|stats|stats\{\})$`)

// shape is what members a value has, by their paths, with their JSON types. The items of a list are one, and so are the
// members of a map of names.
type shape map[string]map[string]bool

func (s shape) add(path string, v any) {
	kind := "null"
	switch v := v.(type) {
	case map[string]any:
		kind = "object"
		for k, member := range v {
			at := path + "." + k
			if free.MatchString(path) {
				at = path + "{}"
			}
			s.add(at, member)
		}
	case []any:
		kind = "list"
		for _, item := range v {
			s.add(path+"[]", item)
		}
	case string:
		kind = "string"
	case float64:
		kind = "number"
	case bool:
		kind = "boolean"
	}
	if s[path] == nil {
		s[path] = map[string]bool{}
	}
	s[path][kind] = true
}

// holder is the path of what holds a member.
func holder(path string) string {
	return path[:max(strings.LastIndexAny(path, ".[{"), 0)]
}

// against lists where another shape is not this one. Null was a value of no promise; what is inside of something that
// differs is not said again. What is ours alone is known only where this one is complete.
func (s shape) against(o shape, complete bool) (out []string) {
	said := map[string]bool{}
	for _, path := range slices.Sorted(maps.Keys(s)) {
		was, is := s[path], o[path]
		up := holder(path)
		if path != "" && said[up] || len(was) == 1 && was["null"] {
			said[path] = path != "" && said[up]
			continue
		}
		what := ""
		switch {
		case len(is) == 0 && strings.HasSuffix(path, "[]"):
			what = "is empty"
		case len(is) == 0 && strings.HasSuffix(path, "{}"):
			what = "is empty"
		case len(is) == 0:
			what = "is lacking"
		case len(is) == 1 && is["null"]:
			what = "is null"
		case !overlap(was, is):
			what = fmt.Sprintf("was %s, is %s", kinds(was), kinds(is))
		}
		if what != "" {
			said[path] = true
			out = append(out, fmt.Sprintf(" %s: %s", path, what))
		}
	}
	for _, path := range slices.Sorted(maps.Keys(o)) {
		up := holder(path)
		if complete && s[path] == nil && s[up]["object"] && !strings.HasSuffix(path, "{}") {
			out = append(out, fmt.Sprintf(" %s: is ours alone", path))
		}
	}
	return out
}

func overlap(a, b map[string]bool) bool {
	for k := range a {
		if k != "null" && b[k] {
			return true
		}
	}
	return false
}

func kinds(k map[string]bool) string {
	return strings.Join(slices.Sorted(maps.Keys(k)), " or ")
}
