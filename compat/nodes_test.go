package compat

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/hashicorp/nomad/api"
)

// unknown is the id of nothing.
const unknown = "11111111-1111-4111-8111-111111111111"

// nodeWords reads and writes the metadata of the agent's node, and asks for nodes by their prefix.
func nodeWords(a *agent) {
	list, _, err := a.Nodes().PrefixListOpts("", nil)
	a.ok(err)
	if len(list) != 1 {
		a.t.Fatalf("%d nodes", len(list))
	}
	id, word := list[0].ID, "blue"
	for _, of := range []string{id, ""} { // without an id it is that of the agent which is asked
		out, err := a.Nodes().Meta().Apply(
			&api.NodeMetaApplyRequest{NodeID: of, Meta: map[string]*string{"colour": &word}}, nil)
		a.ok(err)
		read, err := a.Nodes().Meta().Read(of, nil)
		a.ok(err)
		for _, m := range []*api.NodeMetaResponse{out, read} {
			if m.Meta["colour"] != word || m.Dynamic["colour"] == nil || *m.Dynamic["colour"] != word ||
				m.Static["colour"] != "" {
				a.t.Errorf("the metadata are %+v", m)
			}
		}
		a.eventually("the servers know the metadata", func() error {
			n, _, err := a.Nodes().Info(id, nil)
			if err == nil && n.Meta["colour"] != word {
				err = fmt.Errorf("they know %v", n.Meta)
			}
			return err
		})
		out, err = a.Nodes().Meta().Apply(
			&api.NodeMetaApplyRequest{NodeID: of, Meta: map[string]*string{"colour": nil}}, nil)
		a.ok(err)
		if _, there := out.Meta["colour"]; there {
			a.t.Errorf("taken away, it is there: %+v", out)
		}
	}
	_, err = a.Nodes().Meta().Read(unknown, nil)
	a.refused(err, "404")
	_, _, err = a.Nodes().Purge(id, nil)
	a.refused(err, "it is ready, not down")
	_, _, err = a.Nodes().Purge(unknown, nil)
	a.refused(err, "404")
	_, _, err = a.Nodes().ForceEvaluate(id, nil)
	a.refused(err, "501 (evaluating a node is not built yet")
	_, err = a.Nodes().UpdateDrainOpts(id, &api.DrainOptions{}, nil)
	a.refused(err, "501 (draining is not built yet")
	ctx, cancel := context.WithCancel(a.t.Context())
	defer cancel()
	if m := <-a.Nodes().MonitorDrain(ctx, id, 0, false); m == nil || m.Level == api.MonitorMsgLevelError {
		a.t.Errorf("a node that does not drain: %v", m)
	}
	local, err := api.NewClient(&api.Config{Address: "unix://" + a.socket})
	a.ok(err)
	a.refused(local.Nodes().GcAlloc(unknown, nil), "404")
}

// agentTruths asks of an agent what its node says, and for what is not built, which is refused by name.
func agentTruths(a *agent) {
	self, err := a.Agent().Self()
	a.ok(err)
	for what, ask := range map[string]func() (string, error){
		self.Member.Name: a.Agent().NodeName,
		"dc1":            a.Agent().Datacenter,
		"global":         a.Agent().Region,
	} {
		if got, err := ask(); err != nil || got != what {
			a.t.Errorf("%q, and should be %q: %v", got, what, err)
		}
	}
	all, err := a.Agent().MembersOpts(&api.QueryOptions{AllowStale: true})
	a.ok(err)
	if len(all.Members) != 1 {
		a.t.Errorf("the members are %+v", all.Members)
	}
	a.refused(a.Agent().SetServers([]string{"127.0.0.1:4647"}), "this agent has a server")
	_, err = a.Agent().Join("127.0.0.1")
	a.refused(err, "501 (servers join by their configuration")
	a.refused(a.Agent().Reload(nil, nil), "501 (reloading by request is not built yet")
	for _, change := range []func(string) (*api.KeyringResponse, error){
		a.Agent().InstallKey, a.Agent().UseKey, a.Agent().RemoveKey,
	} {
		_, err := change("key")
		a.refused(err, "501 (there is no gossip")
	}
	for _, profile := range []func() ([]byte, error){
		func() ([]byte, error) { return a.Agent().CPUProfile(api.PprofOptions{}, nil) },
		func() ([]byte, error) { return a.Agent().Trace(api.PprofOptions{}, nil) },
		func() ([]byte, error) { return a.Agent().Lookup("heap", api.PprofOptions{}, nil) },
	} {
		_, err := profile()
		a.refused(err, "501 (profiles are not served")
	}
	_, err = a.Agent().GetSchedulerWorkerConfig(nil)
	a.refused(err, "501 (the scheduler's workers cannot be set")
	_, err = a.Agent().SetSchedulerWorkerConfig(api.SchedulerWorkerPoolArgs{NumSchedulers: 1}, nil)
	a.refused(err, "501 (the scheduler's workers cannot be set")
	stop := make(chan struct{})
	defer close(stop)
	_, errs := a.Agent().MonitorExport(stop, nil)
	a.refused(<-errs, "501 (exporting logs is not built yet")
}

// Configurations of an agent with a server alone, and of one with a node alone.
const (
	serverAlone = `
name = "far"
addresses { rpc = "127.0.0.1" }
ports {
  http = %d
  rpc  = %d
}
server {
  enabled          = true
  bootstrap_expect = 1
}
client { enabled = false }
api { socket = %q }
acl { enabled = false }
`
	nodeAlone = `
name = "near"
ports { http = %d }
client {
  enabled         = true
  servers         = [%q]
  join_token_file = %q
}
api { socket = %q }
`
)

// Given a node beside a server, when the public client tells it which servers there are, and once it has ended has it
// forgotten, then the node asks those, a node that lives is not forgotten, and one that is forgotten is not there.
func TestThePublicClientSetsServersAndForgetsANode(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("the agent needs root: it makes namespaces, cgroups and mounts")
	}
	binary, rpc := build(t), freePort(t)
	address := fmt.Sprintf("127.0.0.1:%d", rpc)
	begin := func(text string, args ...any) (a *agent, end func()) {
		dir, err := os.MkdirTemp("", "berth-compat-")
		if err != nil {
			t.Fatal(err)
		}
		socket, config := filepath.Join(dir, "api.sock"), filepath.Join(t.TempDir(), "agent.hcl")
		text = fmt.Sprintf(text, append(append([]any{freePort(t)}, args...), socket)...)
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		end, _ = launch(t, dir, binary, "-config", config)
		a = &agent{t: t, socket: socket}
		a.Client, err = api.NewClient(&api.Config{Address: "unix://" + socket})
		a.ok(err)
		return a, end
	}
	server, _ := begin(serverAlone, rpc)
	token := filepath.Join(t.TempDir(), "token")
	server.eventually("a join token is made", func() error {
		cmd := exec.Command(binary, "operator", "join-token", "create")
		cmd.Env = append(os.Environ(), "NOMAD_ADDR=unix://"+server.socket)
		out, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return os.WriteFile(token, regexp.MustCompile(`berth-join-\S+`).Find(out), 0o600)
	})
	node, end := begin(nodeAlone, address, token)
	id := ""
	of := func(status string) func() error {
		return func() error {
			list, _, err := server.Nodes().List(nil)
			if err != nil || len(list) != 1 || list[0].Status != status {
				return fmt.Errorf("the nodes are %+v, %w", list, err)
			}
			id = list[0].ID
			return nil
		}
	}
	node.eventually("it joins", of("ready"))

	node.refused(node.Agent().SetServers(nil), "400")
	node.refused(node.Agent().SetServers([]string{"::nowhere::"}), "400")
	node.ok(node.Agent().SetServers([]string{address}))
	if servers, err := node.Agent().Servers(); err != nil || !slices.Equal(servers, []string{address}) {
		t.Errorf("it asks %v, %v", servers, err)
	}
	_, _, err := server.Nodes().Purge(id, nil)
	server.refused(err, "it is ready, not down")
	end()
	server.eventually("it counts as down", of("down"))
	reply, _, err := server.Nodes().Purge(id, nil)
	server.ok(err)
	if reply.NodeModifyIndex == 0 {
		t.Errorf("the answer is %+v", reply)
	}
	_, _, err = server.Nodes().Info(id, nil)
	server.refused(err, "404")
	_, _, err = server.Nodes().Purge(id, nil)
	server.refused(err, "404")
}
