package server_test

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/redact"
	"berth/internal/model/alloc"
	"berth/internal/model/consul"
	"berth/internal/model/job"
	"berth/internal/port/raftlog"
	"berth/internal/server"
	"berth/internal/testkit/servers"
	"berth/internal/wire"
)

// accessLists are those of a Consul in memory, which all servers speak with.
type accessLists struct {
	mu     sync.Mutex
	tokens map[string]string // secrets by accessor
	away   bool
}

var awayError = fault.New(fault.Unavailable, "reach", "Consul", "nobody answers")

const canary = "canary-5b2f"

func (l *accessLists) ServiceToken(_ context.Context, t *consul.ServiceToken) (redact.Secret, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.away {
		return redact.Secret{}, awayError
	}
	l.tokens[t.Accessor] = canary + t.Service
	return redact.New(l.tokens[t.Accessor]), nil
}

func (l *accessLists) Revoke(_ context.Context, accessor string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.away {
		return awayError
	}
	delete(l.tokens, accessor)
	return nil
}

func (l *accessLists) Instances(context.Context, string) ([]string, error) { return nil, nil }

func (l *accessLists) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.tokens)
}

func (l *accessLists) set(away bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.away = away
}

// meshJob is a job of which a task has its part in the mesh.
func meshJob() *job.Job {
	j := jobOf("web")
	g := j.TaskGroups[0]
	g.Services = []*job.Service{{
		Name:     "web",
		Provider: job.ProviderServers,
		Connect:  &job.Connect{Native: true},
	}}
	g.Tasks[0].Kind = job.KindOf(job.RoleNative, "web")
	return j
}

// Given three servers and a node that has the token of a task, when the alloc ends while Consul is away and the leader
// stops, then the next leader revokes it when Consul answers, and no server has ever written its secret anywhere.
func TestATokenOfConsulIsRevokedByTheNextLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &accessLists{tokens: map[string]string{}}
		c := servers.StartWith(t, 3, raftlog.Config{}, func(cfg *server.Config) { cfg.Tokens = l })
		first := c.Leader()
		a := connect(t, c, c.Follower())
		stream, set := a.allocs(t)
		if _, err := wire.JobRegister.Call(t.Context(), first.Conn,
			&wire.JobRegisterRequest{Job: meshJob()}); err != nil {
			t.Fatal(err)
		}
		for len(set.Bundles) == 0 {
			var err error
			if set, err = stream.Recv(); err != nil {
				t.Fatal(err)
			}
		}
		placed := set.Bundles[0].Alloc
		ask := func() (redact.Secret, error) {
			reply, err := wire.NodeConsulToken.Call(t.Context(), a.conn, &wire.ConsulTokenRequest{
				NodeIdentity: a.NodeIdentity,
				Alloc:        placed.ID,
				Task:         "t",
				Service:      "web",
			})
			if err != nil {
				return redact.Secret{}, err
			}
			return reply.Token.Secret(), nil
		}
		if token, err := ask(); err != nil || token.Reveal() != canary+"web" || l.count() != 1 {
			t.Fatalf("it gets %q, %v", token.Reveal(), err)
		}
		stranger := connect(t, c, c.Follower())
		if _, err := wire.NodeConsulToken.Call(t.Context(), stranger.conn, &wire.ConsulTokenRequest{
			NodeIdentity: stranger.NodeIdentity,
			Alloc:        placed.ID,
			Task:         "t",
			Service:      "web",
		}); !fault.Has(err, fault.Denied) {
			t.Errorf("another node: %v", err)
		}
		l.set(true)
		if _, err := wire.NodeUpdate.Call(t.Context(), a.conn, &wire.NodeUpdateRequest{
			NodeIdentity: a.NodeIdentity,
			Allocs:       []*alloc.Alloc{{ID: placed.ID, ClientStatus: alloc.ClientFailed}},
		}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		first.Stop()
		next := c.Leader(first)
		if next == nil || next.Store().Snapshot().ConsulToken(nil, placed.ID, "t") == nil || l.count() != 1 {
			t.Fatalf("the next leader knows nothing of it; in Consul are %d", l.count())
		}
		l.set(false)
		time.Sleep(10 * time.Minute)
		if l.count() != 0 || next.Store().Snapshot().ConsulToken(nil, placed.ID, "t") != nil {
			t.Errorf("%d tokens are left", l.count())
		}
		if _, err := ask(); !fault.Has(err, fault.Denied) {
			t.Errorf("one that has ended gets another one: %v", err)
		}
		for _, m := range c.Members {
			if strings.Contains(m.Said(), canary) {
				t.Errorf("%s has logged the secret", m.Name)
			}
			holds(t, m.Dir(), canary)
		}
	})
}

// holds fails the test if a text is in a file below a directory.
func holds(t *testing.T, dir, text string) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		files++
		data, err := os.ReadFile(path)
		if bytes.Contains(data, []byte(text)) {
			t.Errorf("%s has the secret", path)
		}
		return err
	})
	if err != nil || files == 0 {
		t.Errorf("%d files were looked at, %v", files, err)
	}
}
