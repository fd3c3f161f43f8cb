package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"berth/api"
)

// throughGateways is a job with a gateway of each kind. What would be their Envoy sleeps.
const throughGateways = `
job "gateways" {
  group "edge" {
    network {
      mode = "bridge"
      port "in" {
        static = 8080
        to     = 8080
      }
    }
    service {
      name = "edge"
      port = "8080"
      connect {
        gateway {
          ingress {
            listener {
              port     = 8080
              protocol = "tcp"
              service {
                name = "BEHIND"
              }
            }
          }
        }
        SLEEPS
      }
    }
  }
  group "exit" {
    network {
      mode = "bridge"
    }
    service {
      name = "exit"
      connect {
        gateway {
          proxy {
            connect_timeout = "1s"
          }
          terminating {
            service {
              name    = "ext"
              ca_file = "/secrets/ca.pem"
              sni     = "ext.example"
            }
          }
        }
        SLEEPS
      }
    }
  }
  group "open" {
    network {
      mode = "host"
    }
    service {
      name = "open"
      connect {
        gateway {
          terminating {
            service {
              name = "ext"
            }
          }
        }
        SLEEPS
      }
    }
  }
  group "wan" {
    network {
      mode = "bridge"
      port "wan" {}
    }
    service {
      name = "wan"
      port = "wan"
      connect {
        gateway {
          mesh {}
        }
        SLEEPS
      }
    }
  }
}`

const sleeps = `sidecar_task {
          driver = "raw_exec"
          config {
            command = "sleep"
            args    = ["100000"]
          }
        }`

// TestGatewaysAreKnownInConsul: given a Consul that denies everything and a job with a gateway of each kind, then
// Consul has each as what it is, and what it does; each task has the file that an Envoy begins with, which says the
// same, with a token of its own; what the job says anew is heard; and a job that is stopped takes its gateways out.
func TestGatewaysAreKnownInConsul(t *testing.T) {
	m := meshedBy(t, "0b8a5f2e-6d3c-4e0f-8f43-9a7e5d2c1b6a")
	text := strings.ReplaceAll(throughGateways, "SLEEPS", sleeps)
	m.run(strings.ReplaceAll(text, "BEHIND", "web"))
	entry := func(kind, name string) string {
		var e map[string]any
		if err := m.ask(http.MethodGet, "/v1/config/"+kind+"/"+name, nil, &e); err != nil {
			return err.Error()
		}
		said, err := json.Marshal(e)
		must(t, err)
		return string(said)
	}
	m.eventually("the ingress gateway's entry", func() bool {
		e := entry("ingress-gateway", "edge")
		return strings.Contains(e, `"Name":"web"`) && strings.Contains(e, `"Port":8080`) &&
			strings.Contains(e, `"berth-job":"default/gateways"`)
	})
	m.eventually("the terminating gateway's entry", func() bool {
		e := entry("terminating-gateway", "exit")
		return strings.Contains(e, `"CAFile":"/secrets/ca.pem"`) && strings.Contains(e, `"SNI":"ext.example"`)
	})
	for name, kind := range map[string]string{"edge": "ingress", "exit": "terminating", "open": "terminating",
		"wan": "mesh"} {
		a := m.allocOfJob("gateways", name)
		var all map[string]struct {
			ID, Service, Kind, Address string
			Port                       int
			Proxy                      struct{ Config map[string]any }
			TaggedAddresses            map[string]struct{ Address string }
		}
		must(t, m.ask(http.MethodGet, "/v1/agent/services", nil, &all))
		secrets := filepath.Join(m.data, "alloc", a.ID, "connect-"+kind+"-"+name, "secrets")
		file, err := os.ReadFile(filepath.Join(secrets, "envoy_bootstrap.json"))
		must(t, err)
		var begins struct{ Node struct{ ID, Cluster string } }
		must(t, json.Unmarshal(file, &begins))
		s, there := all[begins.Node.ID]
		if !there || s.Service != name || s.Kind != kind+"-gateway" || begins.Node.Cluster != s.Kind ||
			name != "open" && (s.Address != bridgedAddress || s.Proxy.Config["envoy_gateway_no_default_bind"] != true) ||
			name == "open" && (s.Address == "" || s.Port == 0 || s.Proxy.Config["envoy_gateway_no_default_bind"] != nil ||
				strings.Contains(string(file), `"127.0.0.1"`)) {
			t.Errorf("%s: Envoy is %+v, and Consul has %+v", name, begins, s)
		}
		if wan := s.TaggedAddresses["wan"].Address; name == "wan" && wan != bridgedAddress {
			t.Errorf("the gateway between meshes is known at %+v", s.TaggedAddresses)
		}
		token, err := os.ReadFile(filepath.Join(secrets, "si_token"))
		if err != nil || !strings.Contains(string(file), fmt.Sprintf("%q", token)) {
			t.Errorf("%s: Envoy does not begin with its own token: %v", name, err)
		}
	}
	m.eventually("the servers say that Consul has heard of them", func() bool {
		all, err := m.api.Jobs().ConsulEntries(t.Context(), "gateways", nil)
		must(t, err)
		return len(all) == 3 && !slices.ContainsFunc(all, func(e *api.ConsulEntryStatus) bool { return !e.Written })
	})
	m.run(strings.ReplaceAll(text, "BEHIND", "shop"))
	m.eventually("what the job says anew", func() bool {
		return strings.Contains(entry("ingress-gateway", "edge"), `"Name":"shop"`)
	})
	m.stopJob("gateways")
	m.eventually("no gateway is in Consul", func() bool {
		var all map[string]any
		must(t, m.ask(http.MethodGet, "/v1/agent/services", nil, &all))
		return len(all) == 0
	})
}
