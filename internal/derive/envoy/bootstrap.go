// Package envoy owns what Envoy begins with as a proxy of Consul's mesh: who it is, and who sends it the rest.
package envoy

import (
	"crypto/sha256"
	"encoding/json"
	"net"
	"net/netip"
	"strconv"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/redact"
	"berth/internal/model/job"
)

// Config is all that differs from one Envoy to the next.
type Config struct {
	ID      string // of its service in Consul
	Cluster string // the name of the service that it works for; of gateways their kind
	Source  string // the name of the service that it speaks for: of gateways their own
	Socket  string // the path of the way to Consul, as it sees it
	Token   redact.Secret
	Admin   string // host:port where it is asked how it is
	Ready   string // host:port where it says whether it is ready; empty: nowhere
	// Datacenter is that of the agent of Consul.
	Datacenter string
}

// Where the proxies of a group are asked: each has a port of its own, from these on.
const (
	adminHost, firstAdmin = "127.0.0.2", 19001
	readyHost, firstReady = job.Loopback, 19101
)

// AdminOf is where the Envoy that is a task of an alloc is asked how it is.
func AdminOf(of ids.Alloc, g *job.TaskGroup, t *job.Task) string {
	return at(of, adminHost, firstAdmin, g, t)
}

// ReadyOf is where it says whether it is ready.
func ReadyOf(of ids.Alloc, g *job.TaskGroup, t *job.Task) string {
	return at(of, readyHost, firstReady, g, t)
}

// at is an address for a task alone. The loopback of the host is that of other allocs, too: there each has an address of
// its own.
func at(of ids.Alloc, host string, first int, g *job.TaskGroup, t *job.Task) string {
	if g.OnHost() {
		sum := sha256.Sum256([]byte(of))
		host = netip.AddrFrom4([4]byte{127, 1 + sum[0]%254, sum[1], 1 + sum[2]%254}).String()
	}
	n := 0
	for _, s := range g.Services {
		if s == g.ServiceOf(t) {
			break
		}
		if s.Connect.Proxied() {
			n++
		}
	}
	return net.JoinHostPort(host, strconv.Itoa(first+n))
}

// object is one of JSON.
type object = map[string]any

// Bootstrap is the file that an Envoy begins with.
func Bootstrap(c Config) ([]byte, error) {
	admin, err := address(c.Admin)
	if err != nil {
		return nil, err
	}
	static := object{"clusters": []any{c.agent()}}
	if c.Ready != "" {
		if err := c.ready(static, admin); err != nil {
			return nil, err
		}
	}
	text, err := json.MarshalIndent(object{
		"admin": object{
			"access_log": []any{object{
				"name":         "envoy.access_loggers.file",
				"typed_config": object{"@type": logType, "path": "/dev/null"},
			}},
			"address": admin,
		},
		"node": object{
			"cluster":  c.Cluster,
			"id":       c.ID,
			"metadata": object{"namespace": "default", "partition": "default"},
		},
		"layered_runtime": object{"layers": []any{object{
			"name":         "base",
			"static_layer": object{"re2.max_program_size.error_level": 1 << 20},
		}}},
		"static_resources":  static,
		"stats_config":      c.stats(),
		"dynamic_resources": c.dynamic(),
	}, "", "  ")
	return text, fault.Wrap(err, fault.Internal, "write", "the file that Envoy begins with")
}

func address(text string) (object, error) {
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		return nil, fault.Wrap(err, fault.Internal, "read", "address "+text)
	}
	n, err := strconv.Atoi(port)
	return object{"socket_address": object{"address": host, "port_value": n}},
		fault.Wrap(err, fault.Internal, "read", "address "+text)
}

// agent is the way to Consul.
func (c Config) agent() object {
	return object{
		"name":                          agentCluster,
		"ignore_health_on_host_removal": false,
		"connect_timeout":               "1s",
		"type":                          "STATIC",
		optionsOf:                       options("http2_protocol_options"),
		"loadAssignment":                assignment(agentCluster, object{"pipe": object{"path": c.Socket}}),
	}
}

const (
	agentCluster = "local_agent"
	selfCluster  = "self_admin"
)

func assignment(cluster string, at object) object {
	return object{
		"clusterName": cluster,
		"endpoints": []any{object{
			"lbEndpoints": []any{object{"endpoint": object{"address": at}}},
		}},
	}
}

// ready adds a listener that says what Envoy says of itself, and nothing else.
func (c Config) ready(static, admin object) error {
	at, err := address(c.Ready)
	if err != nil {
		return err
	}
	static["clusters"] = append(static["clusters"].([]any), object{
		"name":                          selfCluster,
		"ignore_health_on_host_removal": false,
		"connect_timeout":               "5s",
		"type":                          "STATIC",
		optionsOf:                       options("http_protocol_options"),
		"loadAssignment":                assignment(selfCluster, admin),
	})
	static["listeners"] = []any{object{
		"name":    "envoy_ready_listener",
		"address": at,
		"filter_chains": []any{object{"filters": []any{object{
			"name": "envoy.filters.network.http_connection_manager",
			"typedConfig": object{
				"@type":       managerType,
				"stat_prefix": "envoy_ready",
				"codec_type":  "HTTP1",
				"route_config": object{
					"name": "self_admin_route",
					"virtual_hosts": []any{object{
						"name":    selfCluster,
						"domains": []any{"*"},
						"routes": []any{
							object{
								"match": object{"path": "/ready"},
								"route": object{"cluster": selfCluster, "prefix_rewrite": "/ready"},
							},
							object{"match": object{"prefix": "/"}, "direct_response": object{"status": 404}},
						},
					}},
				},
				"http_filters": []any{object{
					"name":        "envoy.filters.http.router",
					"typedConfig": object{"@type": routerType},
				}},
			},
		}}}},
	}}
	return nil
}

const (
	types       = "type.googleapis.com/envoy.extensions."
	managerType = types + "filters.network.http_connection_manager.v3.HttpConnectionManager"
	routerType  = types + "filters.http.router.v3.Router"
	logType     = types + "access_loggers.file.v3.FileAccessLog"
	optionsName = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
	optionsOf   = "typed_extension_protocol_options"
)

// options have a cluster be spoken to by one version of HTTP.
func options(version string) object {
	return object{optionsName: object{
		"@type":                "type.googleapis.com/" + optionsName,
		"explicit_http_config": object{version: object{}},
	}}
}

// dynamic is who sends the rest, and by whose token.
func (c Config) dynamic() object {
	sent := object{"ads": object{}, "initial_fetch_timeout": "0s", "resource_api_version": "V3"}
	return object{
		"lds_config": sent,
		"cds_config": sent,
		"ads_config": object{
			"api_type":              "DELTA_GRPC",
			"transport_api_version": "V3",
			"grpc_services": object{
				"initial_metadata": []any{object{"key": "x-consul-token", "value": c.Token.Reveal()}},
				"envoy_grpc":       object{"cluster_name": agentCluster},
			},
		},
	}
}
