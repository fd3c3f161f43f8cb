package e2e

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/client/localstate"
	"berth/internal/model/trust"
	"berth/internal/port/credentials"
	"berth/internal/port/tlsport"
	"berth/internal/testkit/freeport"
	"berth/internal/wire"
)

// canary is in the name or the content of all that a node has no part in.
const canary = "canary-7be1"

// liar is a node that has joined properly and is in other hands: whoever has its files calls as it.
type liar struct {
	m       *machine // where the server is, and the node that it lies about
	own     *machine
	addr    string // of the server's TLS port
	port    string // where its people ask
	cred    *credentials.Credentials
	conn    *grpc.ClientConn
	id      wire.NodeIdentity
	tried   []string // epochs that the agent has begun with, the accepted one last
	victim  ids.Node
	alloc   *api.Allocation // on the other node, with a volume
	volume  *api.CSIVolume
	mine    ids.Alloc // on its own
	cluster string
}

// lie is a call that a node has no right to.
type lie struct {
	what string
	tell func(context.Context) error
	says []string // of the refusal; none: it is taken, and nothing of others follows
}

// captured takes what a node's agent has left, as whoever captures its machine does.
func captured(t *testing.T, m, own *machine, addr string) *liar {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(own.data, "*", "credentials.json"))
	must(t, err)
	if len(found) != 1 {
		t.Fatalf("there are %d files of credentials", len(found))
	}
	dir := filepath.Dir(found[0])
	l := &liar{m: m, own: own, addr: addr, cred: credentials.New(credentials.Config{
		Dir:     dir,
		Role:    trust.Node,
		Servers: []string{addr},
	})}
	must(t, l.cred.Open())
	store, err := localstate.Open(dir)
	must(t, err)
	id, known, err := store.Identity()
	must(t, err)
	if !known {
		t.Fatal("the node's store does not say who it is")
	}
	session, err := store.BeginSession()
	must(t, err)
	must(t, store.KV.Close())
	previous, next := session.Start()
	l.tried = append([]string{next}, previous...)
	l.id = wire.NodeIdentity{
		Node:    id.Node,
		Secret:  wire.Secrets{Values: map[string]string{"id": id.Secret.Reveal()}},
		Session: session.Accepted,
	}
	l.conn, err = wire.Connect(l.cred.Way(tlsport.Calls).Dial)
	must(t, err)
	t.Cleanup(func() { _ = l.conn.Close() }) // nobody calls any more
	return l
}

// TestANodeThatLiesIsRefused: given a server with a node that runs a task with a volume, a variable and a token, when
// another node, which has joined properly, calls whatever a node can call, and whatever it cannot, in the other's name,
// about what the other has, as a person, as a server and by a session that is over, then each is refused by name, or
// changes nothing; nothing of the other is shown; and the other's task writes on. Its own agent goes on afterwards.
func TestANodeThatLiesIsRefused(t *testing.T) {
	m := prepare(t, true)
	m.service = true
	addr := net.JoinHostPort("127.0.0.1", fmt.Sprint(m.port))
	port := freeport.Pick(t)
	m.append(fmt.Sprintf("addresses {\n  rpc = \"127.0.0.1\"\n}\nports {\n  rpc  = %d\n  http = %d\n}\n", m.port, port))
	m.append("plugin \"raw_exec\" {\n  config {\n    enabled = true\n  }\n}\n")
	m.withLists()
	m.start()
	m.awaitPlugin("local-csi")
	own := elsewhere(t, "liar", addr)
	token := m.joinToken(own, "-uses", "1", "-node-pool", "default")
	own.launch()
	id := m.ready("liar").ID

	m.create(canary+"-volume", "local-csi")
	m.run(writer{id: canary + "-job", volume: canary + "-volume"}.hcl())
	w := m.running(canary+"-job", 1)[0]
	pid := m.pid(w.ID, "write", "/data/tick")
	m.run(strings.Replace(shellJob("own", "raw_exec", "exec sleep 100000", ""), "group \"g\" {", `group "g" {
    constraint {
      attribute = "${node.unique.name}"
      value     = "liar"
    }`, 1))
	mine := m.running("own", 1)[0]
	if mine.NodeID != id || w.NodeID == id {
		t.Fatalf("the jobs run on nodes %s and %s", mine.NodeID, w.NodeID)
	}
	m.mustCLI("var", "put", "nomad/jobs/"+canary+"-job", "password="+canary)
	m.mustCLI("node", "eligibility", "-disable", id)
	await(m, "all to be healthy", m.api.Deployments().List, func(all []*api.Deployment) bool {
		unfinished := func(d *api.Deployment) bool { return d.Status != "successful" }
		return len(all) == 2 && !slices.ContainsFunc(all, unfinished)
	})
	own.kill()

	l := captured(t, m, own, addr)
	l.port = fmt.Sprintf("http://127.0.0.1:%d", port)
	l.victim, l.mine = ids.Node(w.NodeID), ids.Alloc(mine.ID)
	var err error
	l.alloc, _, err = m.api.Allocations().Get(t.Context(), w.ID, nil)
	must(t, err)
	l.volume, _, err = m.api.Volumes().Get(t.Context(), canary+"-volume", nil)
	must(t, err)
	l.cluster = l.clusterOf()
	l.beats()

	before := l.settled()
	l.tellsAll(l.ofNodes(token), before)
	l.asksAll(before)
	l.connects()
	l.isNoPerson()
	l.refused(l.boasts())
	l.id.Session = l.tried[0]
	l.beats()
	l.unchanged("what it says of itself", before)
	if n, _, err := m.api.Nodes().Get(t.Context(), id, nil); err != nil || n.SchedulingEligibility != "ineligible" {
		t.Errorf("it has made itself %+v (%v)", n, err)
	}
	m.alive("a node lied", pid)
	m.lives(pid, 0)
	if !m.recorded("node \""+id, "ACL.TokenPut") && !m.recorded(id, "ACL.TokenPut") {
		t.Error("what it asked for as a person is in no record")
	}

	own.launch()
	m.ready("liar")
	l.refused(lie{
		what: "a beat of the session that was before",
		tell: func(ctx context.Context) error { return l.beat(ctx, l.id) },
		says: []string{string(l.id.Node), "another agent start"},
	})
	m.lives(pid, 0)
	m.stopJob("own")
	m.stopJob(canary + "-job")
	m.free(canary + "-volume")
	m.remove(canary + "-volume")
	m.mustCLI("job", "stop", "-namespace", "berth", "-detach", "-y", "local-csi")
	m.eventually("the bundled plugin to have stopped", func() bool { return len(m.shims()) == 0 })
}

// withLists has the agent judge people by lists, as it does if its file does not say otherwise.
func (m *machine) withLists() {
	m.t.Helper()
	file := filepath.Join(m.root, "agent.hcl")
	text := m.read(file)
	must(m.t, os.WriteFile(file, []byte(strings.Replace(text, "acl { enabled = false }\n", "", 1)), 0o600))
}

// recorded reports whether a line of the agent's records has all of these words.
func (m *machine) recorded(words ...string) bool {
	m.t.Helper()
	files, err := filepath.Glob(filepath.Join(m.data, "audit", "audit*.log"))
	must(m.t, err)
	for _, file := range files {
		for line := range strings.Lines(m.read(file)) {
			if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) }) {
				return true
			}
		}
	}
	return false
}

// clusterOf is the id of the cluster that the node's certificate is of.
func (l *liar) clusterOf() string {
	l.m.t.Helper()
	who, err := trust.Named(l.own.certificate())
	must(l.m.t, err)
	return who.Cluster
}

// beat is one that a node sends.
func (l *liar) beat(ctx context.Context, id wire.NodeIdentity) error {
	_, err := wire.NodeHeartbeat.Call(ctx, l.conn, &wire.NodeHeartbeatRequest{NodeIdentity: id})
	return err
}

// beats tells the truth: else the node would be down, as its agent is.
func (l *liar) beats() {
	l.m.t.Helper()
	must(l.m.t, l.beat(l.m.t.Context(), l.id))
}

// compared are the lists and objects by which the state is compared.
var compared = []string{
	"/v1/jobs?namespace=*", "/v1/allocations?namespace=*", "/v1/evaluations?namespace=*", "/v1/deployments?namespace=*",
	"/v1/volumes?namespace=*", "/v1/volumes?type=host&namespace=*", "/v1/plugins", "/v1/plugin/csi/local-csi",
	"/v1/nodes", "/v1/node/pools", "/v1/namespaces", "/v1/vars?namespace=*", "/v1/services?namespace=*",
	"/v1/acl/policies", "/v1/acl/tokens", "/v1/acl/roles", "/v1/operator/raft/configuration",
	"/v1/operator/autopilot/configuration", "/v1/operator/scheduler/configuration",
}

// state is what the API shows to who may see all, by what was asked.
func (l *liar) state() map[string]string {
	l.m.t.Helper()
	out := map[string]string{}
	paths := append(slices.Clone(compared), "/v1/node/"+string(l.victim), "/v1/allocation/"+l.alloc.ID,
		"/v1/volume/csi/"+l.volume.ID, "/v1/job/"+l.alloc.JobID, "/v1/var/nomad/jobs/"+l.alloc.JobID)
	for _, path := range paths {
		out[path] = l.m.socketed(path)
	}
	return out
}

// settled is the state once nothing of it changes any more.
func (l *liar) settled() map[string]string {
	l.m.t.Helper()
	now := l.state()
	l.m.eventually("the state to come to rest", func() bool {
		last := now
		l.m.settle()
		now = l.state()
		return maps.Equal(last, now)
	})
	return now
}

// volatile is what changes by itself: how long ago the servers heard of each other, and the index of their log; and
// what nodes say to keep without orders, which is shown as their word.
var volatile = regexp.MustCompile(`"(LastContact|Age)":[^,}]*|"Index":[0-9]+}|,"Orphans":\[[^]]*\]`)

// socketed asks the socket for a path, and returns the body.
func (m *machine) socketed(path string) string {
	m.t.Helper()
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", m.socket())
		},
	}}
	req, err := http.NewRequestWithContext(m.t.Context(), http.MethodGet, "http://berth"+path, nil)
	must(m.t, err)
	resp, err := client.Do(req)
	must(m.t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	must(m.t, err)
	return fmt.Sprint(resp.StatusCode, " ", volatile.ReplaceAllString(string(text), ""))
}

// unchanged compares what there is with what there was. Of the list of nodes those count that are not the liar.
func (l *liar) unchanged(after string, before map[string]string) {
	l.m.t.Helper()
	now := l.state()
	for _, path := range slices.Sorted(maps.Keys(before)) {
		if a, b := l.others(path, before[path]), l.others(path, now[path]); a != b {
			from := 0
			for from < min(len(a), len(b)) && a[from] == b[from] {
				from++
			}
			from = max(0, from-200)
			l.m.t.Errorf("after %s %s is another thing:\n%.400s\nbefore:\n%.400s", after, path, b[from:], a[from:])
		}
	}
}

// others leaves the liar out of a list of nodes: of itself it may say what it likes.
func (l *liar) others(path, text string) string {
	if path != "/v1/nodes" {
		return text
	}
	_, body, _ := strings.Cut(text, " ")
	var all []*api.NodeListStub
	must(l.m.t, json.Unmarshal([]byte(body), &all))
	all = slices.DeleteFunc(all, func(n *api.NodeListStub) bool { return n.ID == string(l.id.Node) })
	out, err := json.Marshal(all)
	must(l.m.t, err)
	return string(out)
}

// refused tells a lie, and wants it refused in these words.
func (l *liar) refused(x lie) {
	l.m.t.Helper()
	ctx, cancel := context.WithTimeout(l.m.t.Context(), patience)
	defer cancel()
	err := x.tell(ctx)
	switch {
	case len(x.says) == 0 && err != nil:
		l.m.t.Errorf("%s: %v", x.what, err)
	case len(x.says) > 0 && err == nil:
		l.m.t.Errorf("%s: it is not refused", x.what)
	}
	for _, word := range x.says {
		if err != nil && !strings.Contains(err.Error(), word) {
			l.m.t.Errorf("%s: the refusal does not say %q: %v", x.what, word, err)
		}
	}
	if err != nil && strings.Contains(err.Error(), canary) {
		l.m.t.Errorf("%s: the refusal tells of what is another's: %v", x.what, err)
	}
}

// table are the methods of the servers, with those who may call them, by the file that says it.
func (l *liar) table() map[string]string {
	l.m.t.Helper()
	text := l.m.read("../internal/server/permissions/testdata/persons.txt")
	out := map[string]string{}
	for line := range strings.Lines(text) {
		what, who, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if !ok || strings.HasPrefix(line, "#") {
			continue
		}
		name, _, _ := strings.Cut(what, " ")
		out[name] += " " + who
	}
	if len(out) < 100 {
		l.m.t.Fatalf("the table has only %d methods", len(out))
	}
	return out
}

// asksAll calls every method there is with the node's certificate and no name in it: as itself, as a person who says to
// be of the server's machine, as a server that passes on, and as both. It gets to none, but to what is shown to
// everybody.
func (l *liar) asksAll(before map[string]string) {
	l.m.t.Helper()
	local := wire.Person{Local: true, Name: "uid 0"}
	relayed := wire.Through(l.conn, "node", "server")
	for _, name := range slices.Sorted(maps.Keys(l.table())) {
		everybody := strings.Contains(l.table()[name], "anonymous")
		m := wire.Unary[wire.Empty, any](name)
		for as, call := range map[string]func(context.Context) (*any, error){
			"itself": func(ctx context.Context) (*any, error) {
				return m.Call(ctx, l.conn, &wire.Empty{})
			},
			"a server that passes on": func(ctx context.Context) (*any, error) {
				return m.Call(ctx, relayed, &wire.Empty{})
			},
			"a person of the server": func(ctx context.Context) (*any, error) {
				return m.Call(wire.For(ctx, local), l.conn, &wire.Empty{})
			},
			"a server that passes on for one": func(ctx context.Context) (*any, error) {
				return m.Call(wire.For(ctx, local), relayed, &wire.Empty{})
			},
		} {
			ctx, cancel := context.WithTimeout(l.m.t.Context(), patience)
			got, err := call(ctx)
			cancel()
			switch {
			case err == nil && strings.Contains(fmt.Sprint(*got), canary):
				l.m.t.Errorf("as %s it gets from %s: %v", as, name, *got)
			case everybody, err == nil && strings.Contains(as, "one") || err == nil && strings.Contains(as, "person"):
			case !fault.Has(err, fault.Denied):
				l.m.t.Errorf("as %s it calls %s: %v", as, name, err)
			}
		}
	}
	l.unchanged("calls of every method", before)
	l.beats()
}

// connects opens the connections that are of servers, and those of nodes in another's name.
func (l *liar) connects() {
	l.m.t.Helper()
	ctx, cancel := context.WithTimeout(l.m.t.Context(), patience)
	defer cancel()
	raft, err := l.cred.Way(tlsport.Raft).Dial(ctx)
	if err == nil { // who dials hears of it when he reads
		err = l.ends(raft)
	}
	if err == nil {
		l.m.t.Error("it has a stream of the log")
	}
	l.m.eventually("the server to say whom it refused", func() bool {
		return l.m.logged("a connection was refused", string(l.id.Node))
	})
	other := l.id
	other.Node = l.victim
	reverse, err := l.cred.Way(tlsport.Reverse).Dial(ctx)
	must(l.m.t, err)
	must(l.m.t, wire.SendHello(reverse, other))
	_, _ = io.Copy(io.Discard, reverse) // the first words of the protocol come before the greeting is judged
	if err := l.ends(reverse); err == nil {
		l.m.t.Error("it answers for another node")
	}
	l.m.eventually("the server to say for whom it would answer", func() bool {
		return l.m.logged("a node's connection was refused", string(l.victim), string(l.id.Node))
	})
	for _, protocol := range []string{"http/1.1", "berth-raft/2", ""} {
		cert, err := l.cred.Certificate()
		must(l.m.t, err)
		config := &tls.Config{Certificates: []tls.Certificate{*cert}, InsecureSkipVerify: true}
		if protocol != "" {
			config.NextProtos = []string{protocol}
		}
		conn, err := (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", l.addr)
		if err == nil {
			_, _ = io.WriteString(conn, "GET /v1/nodes HTTP/1.1\r\nHost: x\r\n\r\n") // the read tells
			err = l.ends(conn)
		}
		if err == nil {
			l.m.t.Errorf("it is answered in protocol %q", protocol)
		}
	}
}

// ends is how a connection is ended by the other end; nil: it says something.
func (l *liar) ends(c net.Conn) error {
	l.m.t.Helper()
	must(l.m.t, c.SetReadDeadline(time.Now().Add(patience)))
	n, err := c.Read(make([]byte, 1))
	var late net.Error
	switch {
	case n > 0:
		return c.Close()
	case errors.As(err, &late) && late.Timeout():
		l.m.t.Errorf("it stays open: %v", err)
	}
	return errors.Join(err, c.Close())
}

// isNoPerson asks the port for people with what the node has: its secret is no token, and who it is no name.
func (l *liar) isNoPerson() {
	l.m.t.Helper()
	for _, shown := range []string{l.id.Shown(), string(l.id.Node), l.id.Session, "local:uid 0"} {
		out, code := l.m.cli("-address", l.port, "-token", shown, "var", "get", "nomad/jobs/"+canary+"-job")
		if code == 0 || strings.Contains(out, "password") {
			l.m.t.Errorf("with the token %q: exit %d\n%s", shown, code, out)
		}
	}
}
