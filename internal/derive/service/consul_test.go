package service_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/internal/derive/service"
	"berth/internal/model/consul"
	"berth/internal/model/job"
)

// inConsul is an alloc with one service, which is Consul's.
func inConsul() (service.Source, *job.Service) {
	s := source()
	web := s.Job.TaskGroups[0].Services[0]
	web.Provider = job.ProviderConsul
	s.Job.TaskGroups[0].Services = []*job.Service{web}
	web.Checks = nil
	return s, web
}

// TestAServiceOfConsulHasAllThatItsJobGives: its texts are put together, and the servers tell of no such service.
func TestAServiceOfConsulHasAllThatItsJobGives(t *testing.T) {
	s, web := inConsul()
	web.EnableTagOverride, web.Kind = true, "k"
	web.Meta = map[string]string{"index": "${NOMAD_ALLOC_INDEX}"}
	web.CanaryMeta = map[string]string{"canary": "yes"}
	web.CanaryTags = []string{"try"}
	web.TaggedAddresses = map[string]string{"vpn": "10.9.9.9:99", "wan": "host.example"}
	web.Weights = &job.ServiceWeights{Passing: 3, Warning: 2}
	for _, r := range service.Registrations(s) {
		if r.Name == "web" {
			t.Fatalf("the servers tell of %+v", r)
		}
	}
	all, err := service.ForConsul(s)
	if err != nil || len(all) != 1 {
		t.Fatalf("%+v, %v", all, err)
	}
	got := all[0].Service
	if !consul.Own(s.Node.ID, got.ID) || !strings.HasPrefix(got.ID, consul.OfAlloc(s.Node.ID, s.Alloc.ID)) {
		t.Errorf("its id is %s", got.ID)
	}
	if got.Name != "web" || got.Kind != "k" || !got.EnableTagOverride || got.Port == 0 || got.Address == "" ||
		got.Weights != (consul.Weights{Passing: 3, Warning: 2}) || len(got.Tags) != 3 {
		t.Errorf("%+v", got)
	}
	if !maps.Equal(got.TaggedAddresses, map[string]consul.Address{
		"vpn": {Address: "10.9.9.9", Port: 99},
		"wan": {Address: "host.example", Port: got.Port},
	}) {
		t.Errorf("%+v", got.TaggedAddresses)
	}
	if !maps.Equal(got.Meta, map[string]string{"external-source": "nomad", "index": "2"}) {
		t.Errorf("%q", got.Meta)
	}
	s.Alloc.Canary = true
	all, _ = service.ForConsul(s)
	if got = all[0].Service; !slices.Equal(got.Tags, []string{"try"}) || got.Meta["canary"] != "yes" {
		t.Errorf("a canary has %q and %q", got.Tags, got.Meta)
	}
}

// TestChecksOfConsulAreAskedByItsAgent: each kind at its address, and a script by what the node says.
func TestChecksOfConsulAreAskedByItsAgent(t *testing.T) {
	s, web := inConsul()
	of := func(c job.ServiceCheck) *job.ServiceCheck {
		c.Interval, c.Timeout = 10*time.Second, 2*time.Second
		c.InitialStatus, c.Notes = "warning", "n"
		c.FailuresBeforeWarning = 2
		c.DeregisterCriticalServiceAfter = 90 * time.Second
		return &c
	}
	web.Checks = []*job.ServiceCheck{
		of(job.ServiceCheck{
			Type:          job.CheckHTTP,
			Path:          "x?y",
			Protocol:      "https",
			TLSSkipVerify: true,
			Method:        "PUT",
		}),
		of(job.ServiceCheck{Type: job.CheckTCP}),
		of(job.ServiceCheck{Type: job.CheckGRPC, GRPCService: "s", GRPCUseTLS: true, TLSServerName: "t"}),
		of(job.ServiceCheck{Type: job.CheckScript, Command: "/x", TaskName: "t"}),
	}
	all, err := service.ForConsul(s)
	if err != nil || len(all[0].Checks) != 4 {
		t.Fatalf("%+v, %v", all, err)
	}
	at := service.Registration{Address: all[0].Service.Address, Port: all[0].Service.Port}.HostPort()
	web1, tcp := all[0].Checks[0], all[0].Checks[1]
	rpc, script := all[0].Checks[2], all[0].Checks[3]
	if web1.HTTP != "https://"+at+"/x?y" || !web1.TLSSkip || web1.Method != "PUT" || web1.Interval != "10s" ||
		web1.Timeout != "2s" || web1.Status != "warning" || web1.Notes != "n" || web1.FailuresBeforeWarning != 2 {
		t.Errorf("%+v", web1)
	}
	if tcp.TCP != at || tcp.HTTP+tcp.GRPC+tcp.TTL != "" {
		t.Errorf("%+v", tcp)
	}
	if rpc.GRPC != at+"/s" || !rpc.GRPCTLS || rpc.TLSServer != "t" {
		t.Errorf("%+v", rpc)
	}
	if script.TTL != "42s" || script.Interval != "" || script.FailuresBeforeWarning != 0 || script.Status != "warning" {
		t.Errorf("%+v", script)
	}
	for _, c := range all[0].Checks {
		if c.DeregisterAfter != "1m30s" {
			t.Errorf("Consul takes it out after %q", c.DeregisterAfter)
		}
		if c.ID != consul.CheckID(all[0].Service.ID, c) {
			t.Errorf("%+v", c)
		}
	}
}
