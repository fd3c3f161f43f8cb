package compat

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/discovery"
	"github.com/prometheus/prometheus/discovery/nomad"
	"github.com/prometheus/prometheus/discovery/targetgroup"
)

// Given Prometheus with its own way to find what it measures, unmodified, when services come and go, then it finds each
// instance at its address, with the labels that its configurations select by, and does not find what has ended; and the
// same when the agent is killed, and there is another.
func TestPrometheusFindsServices(t *testing.T) {
	a := start(t)
	alloc := run(a, found)
	conf := nomad.DefaultSDConfig
	conf.Server = a.Address()
	conf.RefreshInterval = model.Duration(100 * time.Millisecond)
	conf.HTTPClientConfig.Authorization = &config.Authorization{
		Type:        "Bearer",
		Credentials: config.Secret(a.first.SecretID),
	}
	registry := prometheus.NewRegistry()
	d, err := nomad.NewDiscovery(&conf, discovery.DiscovererOptions{
		Logger:  slog.New(slog.DiscardHandler),
		Metrics: conf.NewDiscovererMetrics(registry, discovery.NewRefreshMetrics(registry)),
	})
	a.ok(err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	targets := make(chan []*targetgroup.Group)
	go d.Run(ctx, targets)
	port := alloc.AllocatedResources.Shared.Ports[0]
	at := fmt.Sprintf("%s:%d", port.HostIP, port.Value)
	finds := func(n int) model.LabelSet {
		t.Helper()
		for end := time.Now().Add(time.Minute); time.Now().Before(end); {
			groups := <-targets
			if len(groups) == 1 && len(groups[0].Targets) == n {
				return slices.Concat(groups[0].Targets, []model.LabelSet{nil})[0]
			}
		}
		t.Fatalf("Prometheus does not find %d targets", n)
		return nil
	}
	labels := finds(1)
	for name, want := range map[model.LabelName]string{
		model.AddressLabel:          at,
		"__meta_nomad_service":      "found",
		"__meta_nomad_namespace":    "default",
		"__meta_nomad_dc":           "dc1",
		"__meta_nomad_node_id":      alloc.NodeID,
		"__meta_nomad_tags":         ",blue,i0,",
		"__meta_nomad_service_port": fmt.Sprint(port.Value),
		"__meta_nomad_address":      port.HostIP,
	} {
		if got := string(labels[name]); got != want {
			t.Errorf("%s is %q, not %q", name, got, want)
		}
	}
	a.again()
	a.eventually("the service to be found by the next agent", func() error {
		all, _, err := a.Services().Get("found", nil)
		if err == nil && (len(all) != 1 || all[0].AllocID != alloc.ID) {
			err = fmt.Errorf("it is %+v", all)
		}
		return err
	})
	if after := finds(1); !after.Equal(labels) {
		t.Errorf("after a kill of the agent it is %v, was %v", after, labels)
	}
	_, _, err = a.Jobs().Deregister("found", true, nil)
	a.ok(err)
	finds(0)
}

// Given the calls by which Traefik finds what it leads to, when it follows the servers' events, then it hears of a
// service that comes and of one that goes, and finds at each moment what there is.
func TestAProxyFollowsServices(t *testing.T) {
	a := start(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	heard, err := a.EventStream().Stream(ctx, map[api.Topic][]string{api.TopicService: {"*"}}, 0,
		&api.QueryOptions{AllowStale: true})
	a.ok(err)
	types := func(want string) {
		t.Helper()
		for {
			select {
			case <-ctx.Done():
				t.Fatalf("no event of the type %s", want)
			case e := <-heard:
				a.ok(e.Err)
				for _, one := range e.Events {
					if one.Type == want {
						return
					}
				}
			}
		}
	}
	finds := func(n int) {
		t.Helper()
		a.eventually(fmt.Sprintf("%d services", n), func() error {
			opts := &api.QueryOptions{AllowStale: true, Namespace: "*"}
			list, _, err := a.Services().List(opts)
			if err != nil {
				return err
			}
			var all []*api.ServiceRegistration
			for _, of := range list {
				for _, s := range of.Services {
					some, _, err := a.Services().Get(s.ServiceName, &api.QueryOptions{AllowStale: true, Namespace: of.Namespace})
					if err != nil {
						return err
					}
					all = append(all, some...)
				}
			}
			if len(all) != n {
				return fmt.Errorf("found are %v", all)
			}
			return nil
		})
	}
	finds(0)
	run(a, found)
	types("ServiceRegistration")
	finds(1)
	_, _, err = a.Jobs().Deregister("found", true, nil)
	a.ok(err)
	types("ServiceDeregistration")
	finds(0)
}
