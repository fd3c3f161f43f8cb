package servicesync_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/client/servicesync"
	model "berth/internal/model/consul"
	"berth/internal/model/node"
	"berth/internal/port/consul"
)

// standin answers as an agent of Consul does, and does on purpose what that one does by chance: it stops between two
// answers, is behind, freezes, and forgets. What it says is held against the real program by the tests of that.
type standin struct {
	t   *testing.T
	url string

	mu       sync.Mutex
	name     string
	server   bool
	services map[string]map[string]any // by id, as they were registered
	checks   map[string]string         // to which service each belongs
	shown    map[string]map[string]any // the catalog's
	index    uint64
	heard    uint64 // the latest index for whose successor somebody waits
	refuses  int    // each request is answered so; 0: as usual
	seen     []string
	looks    int // how often the checks of one service were asked for, with which each look at one ends
	before   int // as often before the catalog's last change
	stuck    int // so many requests have been held
	changed  lifecycle.Signal
	held     map[string]chan struct{} // requests whose path begins so wait for the end of the channel
}

func newStandin(t *testing.T) *standin {
	s := &standin{t: t, name: "machine", index: 1, held: map[string]chan struct{}{}}
	s.forget()
	mux := http.NewServeMux()
	for pattern, answer := range map[string]func(*http.Request, map[string]any) any{
		"GET /v1/agent/self":                      s.self,
		"GET /v1/agent/services":                  s.all,
		"GET /v1/agent/service/{id}":              s.one,
		"GET /v1/agent/checks":                    s.found,
		"PUT /v1/agent/service/register":          s.register,
		"PUT /v1/agent/service/deregister/{id}":   s.deregister,
		"PUT /v1/agent/check/register":            s.addCheck,
		"PUT /v1/agent/check/deregister/{id}":     s.removeCheck,
		"GET /v1/catalog/node-services/{machine}": s.catalog,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, answer) })
	}
	server := httptest.NewServer(mux)
	s.url = server.URL
	t.Cleanup(func() {
		s.set(func() {
			for _, gate := range s.held {
				close(gate)
			}
		})
		server.CloseClientConnections()
		server.Close()
	})
	return s
}

// forget is what it is like with an empty directory.
func (s *standin) forget() {
	s.services, s.checks = map[string]map[string]any{}, map[string]string{}
	s.shown = map[string]map[string]any{}
}

func (s *standin) set(change func()) {
	s.mu.Lock()
	change()
	s.mu.Unlock()
	s.changed.Notify()
}

func (s *standin) serve(w http.ResponseWriter, r *http.Request, answer func(*http.Request, map[string]any) any) {
	var body map[string]any
	_ = json.NewDecoder(r.Body).Decode(&body) // of GET there is none
	s.mu.Lock()
	for prefix, gate := range s.held {
		if strings.HasPrefix(r.URL.Path, prefix) {
			s.stuck++
			s.mu.Unlock()
			<-gate // also where the caller has given up: what is frozen does not hear of that
			s.mu.Lock()
		}
	}
	if r.Method == http.MethodPut && s.refuses == 0 {
		call := strings.TrimPrefix(r.URL.Path, "/v1/agent/")
		s.seen = append(s.seen, fmt.Sprintf("%s %v %v", call, body["ID"], body["Tags"]))
	}
	s.mu.Unlock()
	s.wait(r)
	s.mu.Lock()
	if s.refuses != 0 {
		w.WriteHeader(s.refuses)
		s.mu.Unlock()
		return
	}
	out := answer(r, body)
	w.Header().Set("X-Consul-Index", strconv.FormatUint(s.index, 10))
	s.mu.Unlock()
	if out == nil {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	_ = json.NewEncoder(w).Encode(out) // who is gone reads nothing
}

// wait is for a later index, where one was asked for.
func (s *standin) wait(r *http.Request) {
	after, _ := strconv.ParseUint(r.URL.Query().Get("index"), 10, 64)
	for after > 0 {
		changed := s.changed.C()
		s.mu.Lock()
		s.heard = max(s.heard, after)
		later := s.index > after || s.refuses != 0 // one that ends answers whoever waits
		s.mu.Unlock()
		if later {
			return
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}

func (s *standin) self(*http.Request, map[string]any) any {
	return map[string]any{"Config": map[string]any{
		"NodeName":   s.name,
		"Datacenter": "dc1",
		"Version":    "1",
		"Server":     s.server,
	}}
}

func (s *standin) all(*http.Request, map[string]any) any {
	out := map[string]any{}
	for id, one := range s.services {
		out[id] = one
	}
	return out
}

func (s *standin) one(r *http.Request, _ map[string]any) any {
	if one, there := s.services[r.PathValue("id")]; there {
		return one
	}
	return nil
}

func (s *standin) found(r *http.Request, _ map[string]any) any {
	out := map[string]any{}
	if r.URL.Query().Has("filter") {
		s.looks++
	}
	for id, of := range s.checks {
		if f := r.URL.Query().Get("filter"); f == "" || f == "ServiceID == "+strconv.Quote(of) {
			out[id] = map[string]any{"ServiceID": of, "Status": model.Critical}
		}
	}
	return out
}

func (s *standin) register(_ *http.Request, body map[string]any) any {
	id := body["ID"].(string)
	checks, _ := body["Checks"].([]any)
	for _, c := range checks {
		s.checks[c.(map[string]any)["CheckID"].(string)] = id
	}
	delete(body, "Checks")
	body["Service"] = body["Name"]
	delete(body, "Name")
	s.services[id] = body
	s.push(id)
	return true
}

func (s *standin) deregister(r *http.Request, _ map[string]any) any {
	id := r.PathValue("id")
	if s.services[id] == nil {
		return nil
	}
	delete(s.services, id)
	delete(s.shown, id)
	s.index++
	s.changed.Notify()
	return true
}

func (s *standin) addCheck(_ *http.Request, body map[string]any) any {
	s.checks[body["ID"].(string)] = body["ServiceID"].(string)
	return true
}

func (s *standin) removeCheck(r *http.Request, _ map[string]any) any {
	delete(s.checks, r.PathValue("id"))
	return true
}

func (s *standin) catalog(r *http.Request, _ map[string]any) any {
	all := []any{}
	filter := r.URL.Query().Get("filter")
	if r.PathValue("machine") == s.name {
		for id, one := range s.shown {
			if filter == "" || filter == "ID == "+strconv.Quote(id) {
				all = append(all, one)
			}
		}
	}
	return map[string]any{"Services": all}
}

// push has the catalog show what the agent has. The caller holds the lock.
func (s *standin) push(id string) {
	s.write(id, s.services[id]["Tags"])
}

// write writes tags into the catalog. The caller holds the lock.
func (s *standin) write(id string, tags any) {
	one := map[string]any{}
	for k, v := range s.services[id] {
		one[k] = v
	}
	s.index++
	s.before = s.looks
	one["Tags"], one["ModifyIndex"] = tags, s.index
	s.shown[id] = one
	s.changed.Notify()
}

// rests waits until the last change of the catalog was heard, and its service was looked at since.
func (s *standin) rests() {
	s.t.Helper()
	s.watched()
	s.until("it was looked at", func() bool { return s.looks > s.before })
}

// watched waits until all that the catalog shows was heard by who watches it.
func (s *standin) watched() {
	s.t.Helper()
	s.until("the catalog's last change was heard", func() bool { return s.heard >= s.index })
}

func (s *standin) until(what string, holds func() bool) {
	s.t.Helper()
	s.within(time.Minute, what, holds)
}

func (s *standin) within(most time.Duration, what string, holds func() bool) {
	s.t.Helper()
	for end := time.Now().Add(most); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		s.mu.Lock()
		ok := holds()
		s.mu.Unlock()
		if ok {
			return
		}
	}
	s.t.Fatalf("it never came to be that %s: %q", what, s.seen)
}

// tags are those of a service at the agent and in the catalog. The caller holds the lock.
func (s *standin) tags(id, want string) bool {
	return fmt.Sprint(s.services[id]["Tags"]) == want && fmt.Sprint(s.shown[id]["Tags"]) == want
}

func (s *standin) hold(prefix string) (release func()) {
	gate := make(chan struct{})
	s.set(func() { s.held[prefix] = gate })
	return func() {
		s.set(func() { delete(s.held, prefix) })
		close(gate)
	}
}

// count is how many changes were asked for whose text begins so. The caller holds the lock.
func (s *standin) count(prefix string) (n int) {
	for _, one := range s.seen {
		if strings.HasPrefix(one, prefix) {
			n++
		}
	}
	return n
}

// begin begins an agent of ours at a stand-in, as a node.
func (s *standin) begin(on ids.Node) *rig {
	agent, err := consul.New(consul.Config{Address: s.url, Timeout: 2 * time.Second})
	if err != nil {
		s.t.Fatal(err)
	}
	r := &rig{t: s.t, served: map[ids.Alloc]*servicesync.Served{}}
	r.keeper = servicesync.New(servicesync.Config{
		Agent:  agent,
		Allocs: r,
		Node:   func() *node.Node { return &node.Node{ID: on, Resources: node.Resources{IP: "10.0.0.9"}} },
		Log:    slog.New(slog.DiscardHandler),
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := r.keeper.Run(ctx); err != nil {
			s.t.Error(err)
		}
	}()
	r.stop = func() { cancel(); <-done }
	s.t.Cleanup(r.stop)
	return r
}

// idOf is the id of the service of an alloc that web describes.
func idOf(on, id string) string { return "_berth-" + on + "-" + id + "-t-" + id + "-" }

// TestAnEditThatIsTakenBackBeforeItIsSentIsRestored: somebody's edit was seen, and a check turned before our agent
// could send it, so that Consul pushed the older tags over it.
func TestAnEditThatIsTakenBackBeforeItIsSentIsRestored(t *testing.T) {
	s := newStandin(t)
	r := s.begin("n")
	id := idOf("n", "a")
	r.run("a", web("blue"))
	s.until("it is registered", func() bool { return s.tags(id, "[blue]") })
	s.watched()
	for i, tag := range []string{"green", "lime"} {
		s.until("its last registration is dealt with", func() bool { return s.count("service/register") == i+1 })
		release := s.hold("/v1/agent/service/_berth")
		s.set(func() { s.write(id, []string{tag}) })
		s.watched()
		s.set(func() { s.push(id) })
		s.watched()
		release()
		s.until("the edit is back", func() bool { return s.tags(id, "["+tag+"]") })
		s.watched()
	}
	s.until("each edit was sent once", func() bool { return s.count("service/register") == 3 })
}

// TestTheCatalogIsReadBeforeARegistration: somebody edits while another registration is under way, and nobody has told
// our agent of it yet: it goes with that one.
func TestTheCatalogIsReadBeforeARegistration(t *testing.T) {
	s := newStandin(t)
	r := s.begin("n")
	id := idOf("n", "a")
	r.run("a", web("blue"))
	s.until("it is registered", func() bool { return s.tags(id, "[blue]") })
	s.rests()
	release := s.hold("/v1/agent/service/" + id)
	next := web("blue")
	next.Meta = map[string]string{"edition": "2"}
	r.run("a", next)
	s.until("the look at it is under way, and waits", func() bool {
		return s.stuck > 0 && r.keeper.Of("a")[0].Service.Meta["edition"] == "2"
	})
	s.set(func() { s.write(id, []string{"green"}) })
	release()
	s.until("both are there", func() bool {
		meta, _ := s.services[id]["Meta"].(map[string]any)
		return s.tags(id, "[green]") && meta["edition"] == "2"
	})
	s.rests()
	s.set(func() {
		if n := s.count("service/register"); n != 2 {
			t.Errorf("it was registered %d times: %q", n, s.seen)
		}
	})
}

// TestTagsOfBeforeMayBeWrittenAgain: somebody who sends requests to and fro writes the same two sets of tags in turn.
func TestTagsOfBeforeMayBeWrittenAgain(t *testing.T) {
	s := newStandin(t)
	r := s.begin("n")
	id := idOf("n", "a")
	r.run("a", web("blue"))
	s.until("it is registered", func() bool { return s.tags(id, "[blue]") })
	s.rests()
	for i, tag := range []string{"green", "blue", "green", "blue"} {
		s.set(func() { s.write(id, []string{tag}) })
		s.until("the edit is sent", func() bool {
			return s.tags(id, "["+tag+"]") && s.count("service/register") == i+2
		})
		s.rests()
	}
}

// TestWhatTheCatalogLosesTheAgentPushesAtOnce: with the tags that it has, and the check stays.
func TestWhatTheCatalogLosesTheAgentPushesAtOnce(t *testing.T) {
	s := newStandin(t)
	r := s.begin("n")
	id := idOf("n", "a")
	r.run("a", web("blue"))
	s.until("it is registered", func() bool { return s.tags(id, "[blue]") })
	s.watched()
	s.set(func() { s.write(id, []string{"green"}) })
	s.until("the edit is sent", func() bool { return s.tags(id, "[green]") })
	s.watched()
	s.set(func() { delete(s.shown, id); s.index++ })
	s.until("the catalog has it again", func() bool { return s.tags(id, "[green]") })
	s.watched()
	s.set(func() {
		if n := s.count("service/register"); n != 3 || s.count("check/") != 0 {
			t.Errorf("%d registrations: %q", n, s.seen)
		}
	})
}

// TestAConsulThatHasLostAllIsGivenItAnew: its directory was emptied, and its machine has another name; whoever wrote
// tags last has them, and what another of our agents registered there is that one's.
func TestAConsulThatHasLostAllIsGivenItAnew(t *testing.T) {
	s := newStandin(t)
	r, other := s.begin("n"), s.begin("n2")
	id, theirs := idOf("n", "a"), idOf("n2", "a")
	r.run("a", web("blue"))
	other.run("a", web("x"))
	s.until("both are registered", func() bool { return s.tags(id, "[blue]") && s.tags(theirs, "[x]") })
	s.watched()
	s.set(func() { s.write(id, []string{"green"}) })
	s.until("the edit is sent", func() bool { return s.tags(id, "[green]") })
	s.watched()
	s.set(func() { s.forget(); s.refuses = http.StatusInternalServerError; s.index = 1; s.name = "renamed" })
	r.run("b", web("y"))
	r.until(s, "a task hears why", "Service b is not registered in Consul: ")
	s.set(func() { s.refuses = 0 })
	s.until("all are registered", func() bool {
		return s.tags(id, "[green]") && s.tags(theirs, "[x]") && s.tags(idOf("n", "b"), "[y]")
	})
	r.end("a")
	s.until("what has ended is gone", func() bool { return s.services[id] == nil })
	s.set(func() {
		if !s.tags(theirs, "[x]") {
			t.Error("the other agent's is gone, too")
		}
	})
	s.until("the node has its new name", func() bool {
		return r.keeper.Attributes()[model.AttributeNode] == "renamed"
	})
}

func (r *rig) until(s *standin, what, text string) {
	r.t.Helper()
	s.until(what, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return slices.ContainsFunc(r.said, func(said string) bool { return strings.Contains(said, text) })
	})
}

// TestAServerOfConsulThatBeginsAnewWithOlderTagsIsGivenTheLast: it read its catalog while that was replayed. The tags
// that it had when it went away are registered again, once; those that somebody wrote elsewhere meanwhile stay, and so
// do older ones of an agent that is no server, for nobody but people writes there.
func TestAServerOfConsulThatBeginsAnewWithOlderTagsIsGivenTheLast(t *testing.T) {
	for what, c := range map[string]struct {
		server bool
		begins string // its tags as it begins
		ends   string
		sent   int
	}{
		"older ones":              {true, "green", "lime", 4},
		"those of the job":        {true, "blue", "lime", 4},
		"somebody's from between": {true, "red", "red", 3},
		"no server":               {false, "green", "green", 3},
	} {
		t.Run(what, func(t *testing.T) {
			s := newStandin(t)
			s.server = c.server
			r := s.begin("n")
			id := idOf("n", "a")
			r.run("a", web("blue"))
			s.until("it is registered", func() bool { return s.tags(id, "[blue]") })
			s.watched()
			for _, tag := range []string{"green", "lime"} {
				s.set(func() { s.write(id, []string{tag}) })
				s.until("the edit is sent", func() bool { return s.tags(id, "["+tag+"]") })
				s.watched()
			}
			s.rests()
			s.set(func() { s.refuses = http.StatusInternalServerError })
			r.run("b", web("y"))
			r.until(s, "our agent knows that it is away", "Service b is not registered in Consul: ")
			s.set(func() {
				s.services[id]["Tags"] = []any{c.begins}
				s.push(id)
				s.refuses = 0
			})
			s.until("the other comes", func() bool { return s.tags(idOf("n", "b"), "[y]") })
			s.until("it has its tags", func() bool { return s.tags(id, "["+c.ends+"]") })
			s.rests()
			s.set(func() {
				if n := s.count("service/register " + id); n != c.sent {
					t.Errorf("it was registered %d times, want %d: %q", n, c.sent, s.seen)
				}
			})
		})
	}
}

// TestAFrozenConsulHoldsUpNoEnd: whoever ends a task waits for the service to be gone, and no longer than that is
// worth; when Consul goes on, it is gone.
func TestAFrozenConsulHoldsUpNoEnd(t *testing.T) {
	s := newStandin(t)
	r := s.begin("n")
	id := idOf("n", "a")
	r.run("a", web("blue"))
	s.until("it is registered", func() bool { return s.tags(id, "[blue]") })
	release := s.hold("/v1/")
	r.keeper.Leave(context.Background(), "a", "t") // it returns
	s.set(func() {
		if s.services[id] == nil {
			t.Error("nothing was frozen")
		}
	})
	release()
	s.until("it is gone", func() bool { return s.services[id] == nil })
}

// TestOneOfAThousandIsSentAlone: one job's edit touches no other service, and the audit asks for all at once.
func TestOneOfAThousandIsSentAlone(t *testing.T) {
	s := newStandin(t)
	r := s.begin("n")
	const most = 1000
	for i := range most {
		r.run(ids.Alloc("a"+strconv.Itoa(i)), web("blue"))
	}
	s.within(5*time.Minute, "all are registered", func() bool { return len(s.services) == most })
	s.watched()
	s.within(5*time.Minute, "all are noted", func() bool { return r.keeper.Count().Unregistered == 0 })
	s.set(func() { s.seen = nil })
	r.run("a7", web("red"))
	s.until("the edit is sent", func() bool { return s.tags(idOf("n", "a7"), "[red]") })
	s.watched()
	s.set(func() {
		if len(s.seen) != 1 {
			t.Errorf("%d changes were asked for: %q", len(s.seen), s.seen[:min(5, len(s.seen))])
		}
	})
}
