package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"berth/api"
)

// recorded is a request as an agent saw it.
type recorded struct {
	line   string // verb, escaped path and sorted query
	header http.Header
	body   string
}

// agent answers every request the same way and remembers the last.
func agent(t *testing.T, answer http.HandlerFunc) (*api.Client, *recorded) {
	t.Helper()
	var mu sync.Mutex // a request whose connection broke is made again while the first is still answered
	last := &recorded{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		*last = recorded{strings.TrimSuffix(r.Method+" "+r.URL.EscapedPath()+"?"+r.URL.Query().Encode(), "?"), r.Header,
			string(body)}
		mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(s.Close)
	return client(t, api.Config{Address: s.URL}), last
}

func client(t *testing.T, config api.Config) *api.Client {
	t.Helper()
	c, err := api.NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.CloseIdle)
	return c
}

// replay answers with an observed reply.
func replay(t *testing.T, name string) http.HandlerFunc {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "replies", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var s sample
	if err := json.Unmarshal(data, &s); err != nil {
		t.Fatal(err)
	}
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Nomad-Index", "42")
		w.Header().Set("X-Nomad-KnownLeader", "true")
		w.Header().Set("X-Nomad-NextToken", "next")
		code := http.StatusOK
		if !strings.HasPrefix(s.Status, "200") && s.Status != "" {
			code = http.StatusInternalServerError
		}
		w.WriteHeader(code)
		var text string
		if json.Unmarshal(s.Body, &text) == nil && code != http.StatusOK {
			_, _ = io.WriteString(w, text)
			return
		}
		_, _ = w.Write(s.Body)
	}
}

// Given replies as agents really send them, when each method is called, then it asks where it should and reads them.
func TestMethodsAskAndRead(t *testing.T) {
	ns := &api.QueryOptions{
		Namespace: "ns",
		WaitIndex: 7,
		WaitTime:  5 * time.Second,
		Stale:     true,
		Prefix:    "p",
		PerPage:   3,
		NextToken: "t",
		Reverse:   true,
		Filter:    `ID == "a"`,
	}
	every := "filter=ID+%3D%3D+%22a%22&index=7&namespace=ns&next_token=t&per_page=3&prefix=p&reverse=true" +
		"&stale=&wait=5000ms"
	ctx := t.Context()
	for _, c := range []struct {
		reply, line string
		call        func(c *api.Client) (any, error)
		empty       bool // the reply really holds nothing
	}{
		{"GET_jobs", "GET /v1/jobs?" + every, func(c *api.Client) (any, error) {
			v, _, err := c.Jobs().List(ctx, ns)
			return v, err
		}, false},
		{"GET_job_ID", "GET /v1/job/a%2Fb", func(c *api.Client) (any, error) {
			v, _, err := c.Jobs().Get(ctx, "a/b", nil)
			return v, err
		}, false},
		{"PUT_jobs", "PUT /v1/jobs", func(c *api.Client) (any, error) {
			v, _, err := c.Jobs().Register(ctx, &api.JobRegisterRequest{}, nil)
			return v, err
		}, false},
		{"PUT_job_ID_plan", "PUT /v1/job/web/plan", func(c *api.Client) (any, error) {
			id := "web"
			v, _, err := c.Jobs().Plan(ctx, &api.JobPlanRequest{Job: &api.Job{ID: &id}}, nil)
			return v, err
		}, false},
		{"PUT_validate_job", "PUT /v1/validate/job", func(c *api.Client) (any, error) {
			v, _, err := c.Jobs().Validate(ctx, &api.JobValidateRequest{}, nil)
			return v, err
		}, false},
		{"DELETE_job_ID",
			"DELETE /v1/job/web?eval_priority=0&global=false&namespace=n&no_shutdown_delay=false&purge=true",
			func(c *api.Client) (any, error) {
				v, _, err := c.Jobs().Deregister(ctx, "web", api.JobDeregisterOptions{Purge: true},
					&api.WriteOptions{Namespace: "n"})
				return v, err
			}, false},
		{"PUT_job_ID_evaluate", "PUT /v1/job/web/start?namespace=n", func(c *api.Client) (any, error) {
			v, _, err := c.Jobs().Start(ctx, "web", &api.WriteOptions{Namespace: "n"})
			return v, err
		}, false},
		{"PUT_job_ID_evaluate", "PUT /v1/job/web/evaluate", func(c *api.Client) (any, error) {
			v, _, err := c.Jobs().Evaluate(ctx, &api.JobEvaluateRequest{JobID: "web"}, nil)
			return v, err
		}, false},
		{"GET_allocations", "GET /v1/job/web/allocations?all=true", func(c *api.Client) (any, error) {
			v, _, err := c.Jobs().Allocations(ctx, "web", true, nil)
			return v, err
		}, false},
		{"GET_job_ID_evaluations", "GET /v1/job/web/evaluations", func(c *api.Client) (any, error) {
			v, _, err := c.Jobs().Evaluations(ctx, "web", nil)
			return v, err
		}, false},
		{"GET_job_ID_summary", "GET /v1/job/web/summary", func(c *api.Client) (any, error) {
			v, _, err := c.Jobs().Summary(ctx, "web", nil)
			return v, err
		}, false},
		{"GET_job_ID_versions", "GET /v1/job/web/versions?diffs=true", func(c *api.Client) (any, error) {
			v, _, err := c.Jobs().Versions(ctx, "web", true, nil)
			return v, err
		}, false},
		{"GET_job_ID_submission", "GET /v1/job/web/submission?version=2", func(c *api.Client) (any, error) {
			v, _, err := c.Jobs().Submission(ctx, "web", 2, nil)
			return v, err
		}, false},
		{"GET_job_ID_deployment", "GET /v1/job/web/deployment", func(c *api.Client) (any, error) {
			v, _, err := c.Jobs().Deployment(ctx, "web", nil)
			return v, err
		}, false},
		{"GET_allocations", "GET /v1/allocations", func(c *api.Client) (any, error) {
			v, _, err := c.Allocations().List(ctx, nil)
			return v, err
		}, false},
		{"GET_allocation_ID", "GET /v1/allocation/x", func(c *api.Client) (any, error) {
			v, _, err := c.Allocations().Get(ctx, "x", nil)
			return v, err
		}, false},
		{"PUT_allocation_ID_stop", "PUT /v1/allocation/x/stop?no_shutdown_delay=true",
			func(c *api.Client) (any, error) {
				v, _, err := c.Allocations().Stop(ctx, "x", true, nil)
				return v, err
			}, false},
		{"PUT_client_allocation_ID_restart", "PUT /v1/client/allocation/x/restart", func(c *api.Client) (any, error) {
			return nil, c.Allocations().Restart(ctx, "x", &api.AllocRestartRequest{}, nil)
		}, true},
		{"PUT_client_allocation_ID_signal", "PUT /v1/client/allocation/x/signal", func(c *api.Client) (any, error) {
			return nil, c.Allocations().Signal(ctx, "x", &api.AllocSignalRequest{}, nil)
		}, true},
		{"GET_client_allocation_ID_stats", "GET /v1/client/allocation/x/stats", func(c *api.Client) (any, error) {
			return c.Allocations().Stats(ctx, "x", nil)
		}, false},
		{"GET_client_allocation_ID_checks", "GET /v1/client/allocation/x/checks", func(c *api.Client) (any, error) {
			return c.Allocations().Checks(ctx, "x", nil)
		}, false},
		{"GET_client_fs_ls_ID", "GET /v1/client/fs/ls/x?path=%2Fa+b", func(c *api.Client) (any, error) {
			return c.Allocations().ListFiles(ctx, "x", "/a b", nil)
		}, false},
		{"GET_client_fs_stat_ID", "GET /v1/client/fs/stat/x?path=p", func(c *api.Client) (any, error) {
			return c.Allocations().StatFile(ctx, "x", "p", nil)
		}, false},
		{"GET_evaluations", "GET /v1/evaluations", func(c *api.Client) (any, error) {
			v, _, err := c.Evaluations().List(ctx, nil)
			return v, err
		}, false},
		{"GET_evaluation_ID", "GET /v1/evaluation/x?related=true", func(c *api.Client) (any, error) {
			v, _, err := c.Evaluations().Get(ctx, "x", nil)
			return v, err
		}, false},
		{"GET_evaluation_ID_allocations", "GET /v1/evaluation/x/allocations", func(c *api.Client) (any, error) {
			v, _, err := c.Evaluations().Allocations(ctx, "x", nil)
			return v, err
		}, false},
		{"GET_nodes", "GET /v1/nodes", func(c *api.Client) (any, error) {
			v, _, err := c.Nodes().List(ctx, nil)
			return v, err
		}, false},
		{"GET_node_ID", "GET /v1/node/x", func(c *api.Client) (any, error) {
			v, _, err := c.Nodes().Get(ctx, "x", nil)
			return v, err
		}, false},
		{"GET_allocations", "GET /v1/node/x/allocations", func(c *api.Client) (any, error) {
			v, _, err := c.Nodes().Allocations(ctx, "x", nil)
			return v, err
		}, false},
		{"PUT_node_ID_eligibility", "PUT /v1/node/x/eligibility", func(c *api.Client) (any, error) {
			v, _, err := c.Nodes().SetEligibility(ctx, "x", false, nil)
			return v, err
		}, false},
		{"GET_client_stats", "GET /v1/client/stats?node_id=x", func(c *api.Client) (any, error) {
			return c.Nodes().Stats(ctx, "x", nil)
		}, false},
		{"GET_volumes", "GET /v1/volumes?plugin_id=h&type=csi", func(c *api.Client) (any, error) {
			v, _, err := c.Volumes().List(ctx, &api.QueryOptions{Params: map[string]string{"plugin_id": "h"}})
			return v, err
		}, false},
		{"GET_volume_csi_ID", "GET /v1/volume/csi/v%5B0%5D", func(c *api.Client) (any, error) {
			v, _, err := c.Volumes().Get(ctx, "v[0]", nil)
			return v, err
		}, false},
		{"PUT_volume_csi_ID_create", "PUT /v1/volume/csi/v/create", func(c *api.Client) (any, error) {
			v, _, err := c.Volumes().Create(ctx, &api.CSIVolume{ID: "v"}, nil)
			return v, err
		}, false},
		{"PUT_volume_csi_ID", "PUT /v1/volume/csi/v", func(c *api.Client) (any, error) {
			v, _, err := c.Volumes().Register(ctx, &api.CSIVolume{ID: "v"}, nil)
			return v, err
		}, false},
		{"PUT_volume_csi_ID_create", "PUT /v1/volume/csi/v/expand", func(c *api.Client) (any, error) {
			v, _, err := c.Volumes().Expand(ctx, "v", &api.CSIVolumeExpandRequest{CapacityMin: 5}, nil)
			return v, err
		}, false},
		{"DELETE_volume_csi_ID_delete", "DELETE /v1/volume/csi/v/delete?wait=30s", func(c *api.Client) (any, error) {
			return nil, c.Volumes().Delete(ctx, "v", nil, 30*time.Second, nil)
		}, true},
		{"DELETE_volume_csi_ID", "DELETE /v1/volume/csi/v?force=true&reason=fire", func(c *api.Client) (any, error) {
			return nil, c.Volumes().Deregister(ctx, "v", true, "fire", nil)
		}, true},
		{"GET_volumes_external", "GET /v1/volumes/external?plugin_id=h", func(c *api.Client) (any, error) {
			v, _, err := c.Volumes().ListExternal(ctx, "h", nil)
			return v, err
		}, false},
		{"PUT_volumes_snapshot", "PUT /v1/volumes/snapshot", func(c *api.Client) (any, error) {
			v, _, err := c.Volumes().CreateSnapshot(ctx, &api.CSISnapshot{SourceVolumeID: "v"}, nil)
			return v, err
		}, false},
		{"GET_volumes_snapshot", "GET /v1/volumes/snapshot?plugin_id=h", func(c *api.Client) (any, error) {
			v, _, err := c.Volumes().ListSnapshots(ctx, "h", nil, nil)
			return v, err
		}, false},
		{"DELETE_volumes_snapshot", "DELETE /v1/volumes/snapshot?plugin_id=h&snapshot_id=s",
			func(c *api.Client) (any, error) { return nil, c.Volumes().DeleteSnapshot(ctx, "h", "s", nil, nil) }, true},
		{"GET_plugins", "GET /v1/plugins?type=csi", func(c *api.Client) (any, error) {
			v, _, err := c.Plugins().List(ctx, nil)
			return v, err
		}, false},
		{"GET_plugin_csi_ID", "GET /v1/plugin/csi/h", func(c *api.Client) (any, error) {
			v, _, err := c.Plugins().Get(ctx, "h", nil)
			return v, err
		}, false},
		{"GET_agent_self", "GET /v1/agent/self", func(c *api.Client) (any, error) {
			return c.Cluster().Self(ctx)
		}, false},
		{"GET_agent_members", "GET /v1/agent/members", func(c *api.Client) (any, error) {
			return c.Cluster().Members(ctx)
		}, false},
		{"GET_status_leader", "GET /v1/status/leader?region=r", func(c *api.Client) (any, error) {
			return c.Cluster().Leader(ctx, "r")
		}, false},
		{"PUT_search", "PUT /v1/search", func(c *api.Client) (any, error) {
			return c.Cluster().Search(ctx, "a", "all", nil)
		}, false},
		{"PUT_system_gc", "PUT /v1/system/gc", func(c *api.Client) (any, error) {
			return nil, c.Cluster().CollectGarbage(ctx)
		}, true},
		{"GET_namespaces", "GET /v1/namespaces", func(c *api.Client) (any, error) {
			v, _, err := c.Cluster().Namespaces(ctx, nil)
			return v, err
		}, false},
		{"GET_namespace_ID", "GET /v1/namespace/default", func(c *api.Client) (any, error) {
			v, _, err := c.Cluster().Namespace(ctx, "default", nil)
			return v, err
		}, false},
		{"PUT_acl_bootstrap", "PUT /v1/acl/bootstrap", func(c *api.Client) (any, error) {
			return c.ACL().Bootstrap(ctx, "s3cret")
		}, false},
	} {
		t.Run(strings.ReplaceAll(c.line, "/", " "), func(t *testing.T) {
			cl, last := agent(t, replay(t, c.reply+".200"))
			got, err := c.call(cl)
			if err != nil {
				t.Fatal(err)
			}
			if last.line != c.line {
				t.Errorf("asked %s, want %s", last.line, c.line)
			}
			v := reflect.ValueOf(got)
			if v.IsValid() && v.Kind() == reflect.Pointer {
				v = v.Elem()
			}
			hollow := !v.IsValid() || v.IsZero() || v.Kind() == reflect.Slice && v.Len() == 0 ||
				v.Kind() == reflect.Map && v.Len() == 0
			if hollow != c.empty {
				t.Errorf("read %+v", got)
			}
		})
	}
}

// Given replies with headers, when a list is read, then they are returned, and the list is in its documented order.
func TestHeadersAndOrder(t *testing.T) {
	c, _ := agent(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Nomad-Index", "42")
		w.Header().Set("X-Nomad-LastContact", "3")
		w.Header().Set("X-Nomad-KnownLeader", "true")
		w.Header().Set("X-Nomad-NextToken", "next")
		_, _ = io.WriteString(w, `[{"ID":"old","CreateIndex":1},{"ID":"new","CreateIndex":9}]`)
	})
	list, meta, err := c.Allocations().List(t.Context(), nil)
	if err != nil || len(list) != 2 || list[0].ID != "new" {
		t.Fatalf("%v %v", list, err)
	}
	if want := (api.QueryMeta{
		Index:       42,
		LastContact: int64(3 * time.Millisecond),
		KnownLeader: true,
		NextToken:   "next",
	}); *meta != want {
		t.Errorf("headers: %+v", meta)
	}
}

// Given a configuration, when a request is sent, then it carries who asks and for what region and namespace; what the
// call itself says wins. Secrets are in headers, never in the URL.
func TestRequestsCarryTheConfiguration(t *testing.T) {
	_, last := agent(t, nil)
	_ = last
	var got *http.Request
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { got = r }))
	defer s.Close()
	c := client(t, api.Config{
		Address:   s.URL,
		Region:    "r",
		Namespace: "n",
		Token:     "tok",
		HTTPAuth:  "me:pw",
		Header:    http.Header{"X-Extra": {"1"}},
	})
	if err := c.Volumes().Delete(t.Context(), "v", api.Secrets{"b": "2", "a": "1"}, 0,
		&api.WriteOptions{Namespace: "other"}); err != nil {
		t.Fatal(err)
	}
	if got.URL.RawQuery != "namespace=other&region=r" {
		t.Errorf("query %s", got.URL.RawQuery)
	}
	user, password, _ := got.BasicAuth()
	for name, pair := range map[string][2]string{"token": {got.Header.Get("X-Nomad-Token"), "tok"},
		"user": {user, "me"}, "password": {password, "pw"},
		"secrets": {got.Header.Get("X-Nomad-CSI-Secrets"), "a=1,b=2"}, "extra": {got.Header.Get("X-Extra"), "1"}} {
		if pair[0] != pair[1] {
			t.Errorf("%s is %q, want %q", name, pair[0], pair[1])
		}
	}
	if err := c.Volumes().Delete(t.Context(), "v", api.Secrets{"a": "1,b=2"}, 0, nil); err == nil ||
		strings.Contains(err.Error(), "1,b=2") {
		t.Errorf("a value that the header cannot carry: %v", err)
	}
}

// Given answers that are no success, when a call is made, then the error has the status and has what the agent
// answered.
func TestStatusErrors(t *testing.T) {
	for _, c := range []struct {
		code       int
		body, want string
	}{
		{500, "volume in use: vol1", "volume in use: vol1"},
		{404, "", "the agent knows no GET /v1/job/x"},
		{502, "  ", "the agent answered 502 Bad Gateway to GET /v1/job/x"},
	} {
		cl, _ := agent(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(c.code)
			_, _ = io.WriteString(w, c.body)
		})
		_, _, err := cl.Jobs().Get(t.Context(), "x", nil)
		var status *api.StatusError
		if !errors.As(err, &status) || status.Code != c.code || err.Error() != c.want {
			t.Errorf("%d: %v", c.code, err)
		}
		if api.IsNotFound(err) != (c.code == 404) {
			t.Errorf("%d: not found is %v", c.code, api.IsNotFound(err))
		}
	}
}

// Given nobody at an address, a reply that is no JSON, or a caller who gives up, when a call is made, then the error
// says so.
func TestCallsThatCannotSucceed(t *testing.T) {
	gone := httptest.NewServer(nil)
	gone.Close()
	for _, address := range []string{gone.URL, "unix://" + filepath.Join(t.TempDir(), "none.sock")} {
		_, err := client(t, api.Config{Address: address}).Cluster().Self(t.Context())
		var away *api.UnreachableError
		want := "no agent listens at " + address +
			`; start it ("systemctl start berth" where it is a service, "berth agent -dev" to try one), or name ` +
			`another with -address or BERTH_ADDR`
		if !errors.As(err, &away) || !away.Refused() || err.Error() != want {
			t.Errorf("%s: %v", address, err)
		}
	}
	c, _ := agent(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") })
	if _, err := c.Cluster().Self(t.Context()); err == nil ||
		!strings.HasPrefix(err.Error(), "the agent's reply to GET /v1/agent/self cannot be read: ") {
		t.Errorf("no JSON: %v", err)
	}
	c, _ = agent(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond) // runs out
	defer cancel()
	if _, err := c.Cluster().Self(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("given up: %v", err)
	}
}

// Given a socket that admits others only, when a call is made or a program started, then the error names the socket,
// its mode and the way out.
func TestASocketThatDenies(t *testing.T) {
	path := filepath.Join(t.TempDir(), "api.sock")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	denied := func(context.Context, string, string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: "unix", Err: os.NewSyscallError("connect", syscall.EACCES)}
	}
	c := client(t, api.Config{Address: "unix://" + path, Dial: denied})
	_, call := c.Cluster().Self(t.Context())
	_, session := c.Allocations().Exec(t.Context(), "x", api.ExecOptions{Command: []string{"true"}}, nil)
	for _, err := range []error{call, session} {
		var away *api.UnreachableError
		if !errors.As(err, &away) || !away.Denied() || away.Refused() {
			t.Fatalf("%v", err)
		}
		for _, want := range []string{"permission denied", path + " (mode 0600)", "sudo", "token_file", "-token"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("the error lacks %q: %v", want, err)
			}
		}
	}
	_, err := client(t, api.Config{Dial: denied}).Cluster().Self(t.Context())
	if away := (*api.UnreachableError)(nil); !errors.As(err, &away) || away.Denied() {
		t.Errorf("a port is no socket: %v", err)
	}
}

// Given texts that are no address or files that are no certificates, when a client is made, then the error names them.
func TestConfigurationsThatAreRefused(t *testing.T) {
	junk := filepath.Join(t.TempDir(), "junk.pem")
	if err := os.WriteFile(junk, []byte("junk"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		config api.Config
		want   string
	}{
		{api.Config{Address: "localhost"}, "is not a URL"},
		{api.Config{Address: "ftp://h"}, "has the scheme ftp"},
		{api.Config{Address: "http://"}, "names no host"},
		{api.Config{Address: "unix://"}, "is not the path of a socket"},
		{api.Config{TLS: api.TLSConfig{CACert: junk}}, "holds no certificate"},
		{api.Config{TLS: api.TLSConfig{CACert: "/does/not/exist"}}, "cannot be read"},
		{api.Config{TLS: api.TLSConfig{CAPath: t.TempDir()}}, "holds no certificate authorities"},
		{api.Config{TLS: api.TLSConfig{ClientCert: junk}}, "go together"},
		{api.Config{TLS: api.TLSConfig{ClientCert: junk, ClientKey: junk}}, "client certificate cannot be read"},
	} {
		if _, err := api.NewClient(c.config); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %s", c.config, err, c.want)
		}
	}
}

// Given an environment, when the configuration is read, then BERTH_ beats NOMAD_, and no formatter shows the
// credentials.
func TestConfigFromEnv(t *testing.T) {
	env := map[string]string{"NOMAD_ADDR": "http://n:1", "BERTH_ADDR": "http://b:1", "NOMAD_TOKEN": "hush",
		"NOMAD_HTTP_AUTH": "u:hush", "BERTH_NAMESPACE": "ns",
		"NOMAD_REGION": "r", "NOMAD_CACERT": "ca", "NOMAD_CAPATH": "cap", "NOMAD_CLIENT_CERT": "cc",
		"NOMAD_CLIENT_KEY": "ck", "NOMAD_TLS_SERVER_NAME": "sn", "NOMAD_SKIP_VERIFY": "true"}
	get := func(name string) string { return env[name] }
	c, err := api.ConfigFromEnv(get)
	want := api.Config{
		Address:   "http://b:1",
		Token:     "hush",
		HTTPAuth:  "u:hush",
		Namespace: "ns",
		Region:    "r",
		TLS: api.TLSConfig{
			CACert:     "ca",
			CAPath:     "cap",
			ClientCert: "cc",
			ClientKey:  "ck",
			ServerName: "sn",
			SkipVerify: true,
		},
	}
	if err != nil || !reflect.DeepEqual(c, want) {
		t.Fatalf("%+v %v", c, err)
	}
	env["BERTH_SKIP_VERIFY"] = "perhaps"
	if _, err := api.ConfigFromEnv(get); err == nil || !strings.Contains(err.Error(), "BERTH_SKIP_VERIFY") {
		t.Errorf("no boolean: %v", err)
	}
	empty, err := api.ConfigFromEnv(func(string) string { return "" })
	if err != nil || empty.Address != "" || client(t, empty).Config().Address != api.DefaultAddress {
		t.Errorf("empty environment: %+v %v", empty, err)
	}
}

// Given a list of which the beginning has come, when a field of that has the wrong type, then the call fails at once: a
// reply is read as it comes, and is not kept as a whole before its first field is decoded.
func TestAReplyIsReadAsItComes(t *testing.T) {
	failed := make(chan struct{})
	c, _ := agent(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if _, err := io.WriteString(w, `[{"ID":"a"},{"ID":7},`); err != nil {
			t.Error(err)
		}
		w.(http.Flusher).Flush()
		select {
		case <-failed:
		case <-time.After(2 * time.Minute):
			t.Error("the call waits for the rest of the reply")
		}
	})
	_, _, err := c.Volumes().List(t.Context(), nil)
	close(failed)
	if err == nil || !strings.Contains(err.Error(), "the agent's reply to GET /v1/volumes cannot be read") {
		t.Errorf("a list of misshapen volumes: %v", err)
	}
}
