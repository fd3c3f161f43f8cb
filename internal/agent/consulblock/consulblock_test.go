package consulblock_test

import (
	"bytes"
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/internal/agent/consulblock"
)

func of[T any](v T) *T { return &v }

// TestWhatCannotWorkIsRefused: with the setting, the reason and the way out; a node without the block has no agent.
func TestWhatCannotWorkIsRefused(t *testing.T) {
	open := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(open, []byte(strings.Repeat("s3cret", 8)), 0o644); err != nil {
		t.Fatal(err)
	}
	type (
		block      = consulblock.Block
		encryption = consulblock.Encryption
		identities = consulblock.Identities
		fixed      = consulblock.Fixed
	)
	aud := []string{"consul.io"}
	for what, c := range map[string]struct {
		block block
		says  string
	}{
		"nothing set":                {block{}, ""},
		"an address of no kind":      {block{Address: "ftp://x"}, "neither http nor https nor unix"},
		"a path that begins nowhere": {block{Encryption: encryption{CAFile: "ca.pem"}}, "must be absolute"},
		"another one":                {block{GRPCCAFile: "ca.pem"}, "grpc_ca_file ca.pem: its path must be absolute"},
		"a certificate without key":  {block{Encryption: encryption{CertFile: "/x"}}, "one without the other"},
		"no such file": {block{Encryption: encryption{CAFile: "/nowhere/ca.pem"}},
			"consul ca_file /nowhere/ca.pem"},
		"no such file of sidecars":  {block{GRPCCAFile: "/nowhere/ca.pem"}, "consul grpc_ca_file /nowhere/ca.pem"},
		"no certificate":            {block{GRPCCAFile: open}, "it holds no certificate"},
		"a token that all can read": {block{TokenFile: open}, "consul token_file"},
		"no port of sidecars":       {block{GRPCAddress: "127.0.0.1"}, "consul grpc_address 127.0.0.1"},
		"a socket of sidecars":      {block{GRPCAddress: "unix:///run/consul.sock"}, ""},
		"no time at all":            {block{Timeout: of(time.Millisecond)}, "consul timeout 1ms"},
		"more than anybody has":     {block{Timeout: of(time.Hour)}, "consul timeout 1h0m0s"},
		"the one cluster":           {block{Fixed: fixed{Name: "default", Namespace: "default"}}, ""},
		"another cluster":           {block{Fixed: fixed{Name: "west"}}, `consul name "west"`},
		"another namespace":         {block{Fixed: fixed{Namespace: "shop"}}, `consul namespace "shop"`},
		"what is off anyhow": {block{Fixed: fixed{AutoAdvertise: of(false), ChecksUseAdvertise: of(false)}},
			""},
		"joins that are off": {block{Fixed: fixed{ClientAutoJoin: of(false), ServerAutoJoin: of(false)}}, ""},
		"nothing is shared":  {block{Fixed: fixed{ShareSSL: of(false)}}, ""},
		"advertised":         {block{Fixed: fixed{AutoAdvertise: of(true)}}, "consul auto_advertise = true"},
		"advertised in checks": {block{Fixed: fixed{ChecksUseAdvertise: of(true)}},
			"consul checks_use_advertise = true"},
		"nodes that join":     {block{Fixed: fixed{ClientAutoJoin: of(true)}}, "consul client_auto_join = true"},
		"servers that join":   {block{Fixed: fixed{ServerAutoJoin: of(true)}}, "consul server_auto_join = true"},
		"shared certificates": {block{Fixed: fixed{ShareSSL: of(true)}}, "consul share_ssl = true"},
		"identities": {block{Identities: identities{Service: &consulblock.Identity{Audience: aud, TTL: of(time.Hour)}}},
			""},
		"identities of tasks": {block{Identities: identities{
			Task: &consulblock.Identity{Audience: aud, Env: of(true), File: of(true)},
		}},
			""},
		"for nobody": {block{Identities: identities{Service: &consulblock.Identity{}}}, "consul service_identity aud"},
		"for Berth itself": {block{Identities: identities{
			Task: &consulblock.Identity{Audience: []string{"nomadproject.io"}},
		}},
			"consul task_identity aud"},
		"renewed all the time": {block{Identities: identities{
			Task: &consulblock.Identity{Audience: aud, TTL: of(time.Second)},
		}},
			"consul task_identity ttl 1s"},
		"a service's file": {block{Identities: identities{
			Service: &consulblock.Identity{Audience: aud, File: of(true)},
		}},
			"consul service_identity env and file"},
		"no name of a method": {block{Identities: identities{ServiceAuthMethod: "a b"}},
			`consul service_auth_method "a b"`},
		"none for the tasks either": {block{Identities: identities{TaskAuthMethod: "a/b"}},
			`consul task_auth_method "a/b"`},
	} {
		err := c.block.Check()
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v, want %q", what, err, c.says)
		}
	}
	var none *consulblock.Block
	mesh, err := none.Mesh()
	if none.Check() != nil || none.Agent() != nil || none.Reached() != nil || mesh != nil || err != nil ||
		none.ServiceIdentity() != nil || none.TaskIdentity() != nil || none.ServiceMethod()+none.TaskMethod() != "" {
		t.Error("there is an agent")
	}
}

// TestALaterFileIsLaidOverAnEarlierOne: whatever it sets, it sets, and the rest stays.
func TestALaterFileIsLaidOverAnEarlierOne(t *testing.T) {
	set := consulblock.Block{}
	fill(reflect.ValueOf(&set).Elem())
	into := consulblock.Block{}
	into.Override(&set)
	if !reflect.DeepEqual(into, set) {
		t.Errorf("laid over nothing it is %+v, not %+v", into, set)
	}
	later := consulblock.Block{Address: "unix:///x"}
	later.Service = &consulblock.Identity{Audience: []string{"b"}}
	into.Override(&later)
	set.Address, set.Service.Audience = "unix:///x", []string{"b"}
	if !reflect.DeepEqual(into, set) {
		t.Errorf("it is %+v, not %+v", into, set)
	}
}

// fill gives each member of a struct some value.
func fill(v reflect.Value) {
	for i := range v.NumField() {
		f := v.Field(i)
		if !f.CanSet() {
			continue
		}
		switch f.Interface().(type) {
		case string:
			f.SetString(v.Type().Field(i).Name)
		case *bool:
			f.Set(reflect.ValueOf(of(true)))
		case *time.Duration:
			f.Set(reflect.ValueOf(of(time.Hour)))
		case []string:
			f.Set(reflect.ValueOf([]string{"a"}))
		case map[string]string:
			f.Set(reflect.ValueOf(map[string]string{"a": "b"}))
		case consulblock.Encryption, consulblock.Identities, consulblock.Fixed:
			fill(f)
		case *consulblock.Identity:
			f.Set(reflect.ValueOf(&consulblock.Identity{}))
			fill(f.Elem())
		default:
			panic("no value for " + v.Type().Field(i).Name)
		}
	}
}

// TestWhatTheHalvesAreGiven: how Consul is spoken to, where sidecars ask, and by what services and tasks get tokens.
func TestWhatTheHalvesAreGiven(t *testing.T) {
	b := consulblock.Block{
		Address:     "10.0.0.1:8500",
		Timeout:     of(time.Second),
		GRPCAddress: "10.0.0.1:8503",
		Identities: consulblock.Identities{
			Service: &consulblock.Identity{Audience: []string{"consul.io"}, TTL: of(time.Hour)},
			Task: &consulblock.Identity{
				Audience:    []string{"consul.io"},
				File:        of(true),
				ExtraClaims: map[string]string{"a": "b"},
			},
			TaskAuthMethod: "tasks",
		},
	}
	if err := b.Check(); err != nil {
		t.Fatal(err)
	}
	if a := b.Agent(); a.Address != b.Address || a.Timeout != time.Second || b.Reached() == nil {
		t.Errorf("the agent is %+v", a)
	}
	if m, err := b.Mesh(); err != nil || m.Address != "10.0.0.1:8503" || m.CA != nil {
		t.Errorf("sidecars ask %+v, %v", m, err)
	}
	if m, err := (&consulblock.Block{}).Mesh(); err != nil || m.Address != consulblock.DefaultGRPC {
		t.Errorf("sidecars ask %+v, %v", m, err)
	}
	i := b.ServiceIdentity()
	if i.Name != "" || i.TTL != time.Hour || !slices.Equal(i.Audience, []string{"consul.io"}) {
		t.Errorf("services have %+v", i)
	}
	if i := b.TaskIdentity(); i.Name != consulblock.TaskIdentityName || !i.File || i.Env || i.ExtraClaims["a"] != "b" {
		t.Errorf("tasks have %+v", i)
	}
	if b.ServiceMethod() != consulblock.DefaultMethod || b.TaskMethod() != "tasks" {
		t.Errorf("the methods are %s and %s", b.ServiceMethod(), b.TaskMethod())
	}
}

// TestSidecarsAreReachedByTLS: where a file names who signs the certificates of Consul's agents, what is in it arrives.
func TestSidecarsAreReachedByTLS(t *testing.T) {
	srv := httptest.NewTLSServer(nil)
	defer srv.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
	path := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(path, ca, 0o600); err != nil {
		t.Fatal(err)
	}
	b := consulblock.Block{GRPCCAFile: path}
	if err := b.Check(); err != nil {
		t.Fatal(err)
	}
	if m := b.Agent().Mesh; m == nil || !bytes.Equal(m.CA, ca) {
		t.Errorf("arrived as %+v", m)
	}
}
