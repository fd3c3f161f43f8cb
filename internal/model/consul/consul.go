// Package consul owns what is said to a Consul agent about services: what each is registered with, whose it is, and
// what is to be done when what is wanted, what the agent has and what the catalog shows differ (merge_flow.go). It
// knows no protocol and asks nobody.
package consul

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"

	"berth/internal/base/ids"
)

// Service is a service as a Consul agent has it, or is to have it. Nil and empty are the same everywhere, and so are no
// weights and those of one each.
type Service struct {
	ID              string
	Name            string
	Kind            string
	Tags            []string // a set
	Meta            map[string]string
	Address         string
	Port            int
	TaggedAddresses map[string]Address
	Weights         Weights
	// EnableTagOverride: others may change the tags in the catalog, and what they write stays.
	EnableTagOverride bool
	// Native: it speaks the protocols of the mesh itself.
	Native bool
	// Proxy is what it does in the mesh as a proxy; nil: it is none.
	Proxy *Proxy
}

// Address is one more address of a service, by a name such as lan or wan.
type Address struct {
	Address string
	Port    int
}

// Weights are those of an instance in answers of DNS, by what its checks say.
type Weights struct {
	Passing int
	Warning int
}

// Check is one of a service. Its ID is that of its whole definition (CheckID): another definition is another check, so
// that which checks differ is seen by their ids alone.
type Check struct {
	ID        string
	Name      string
	Notes     string
	Status    string // before its first answer; empty: critical
	Interval  string
	Timeout   string
	TTL       string // somebody tells what it finds, and does so at least this often; the others are empty then
	Alias     string // the id of a service whose state it has; the others are empty then
	HTTP      string // a URL
	Method    string
	Body      string
	Header    map[string][]string
	TCP       string // host:port
	GRPC      string // host:port, and the service after a slash
	GRPCTLS   bool
	TLSServer string
	TLSSkip   bool

	SuccessBeforePassing   int
	FailuresBeforeWarning  int
	FailuresBeforeCritical int

	// DeregisterAfter: a service that is critical for so long is deregistered by Consul itself; empty: it is not.
	DeregisterAfter string
}

// MetaSource is the member of a service's meta by which Consul's pages show where a service comes from.
const (
	MetaSource = "external-source"
	Source     = "nomad" // whose mark those pages know
)

// Attributes of nodes which register services in Consul: AttributeNode is the name of their agent in its catalog.
const (
	AttributeServices = "consul.services"
	AttributeNode     = "unique.consul.name"
)

// States of checks.
const (
	Passing  = "passing"
	Warning  = "warning"
	Critical = "critical"
)

const (
	servicePrefix = "_berth-"
	checkPrefix   = "_berth-check-"
)

// Prefix is that of the ids of all services that an agent of Berth registers. It is no one else's: other orchestrators
// take away what bears their own prefix and is unknown to them.
func Prefix(node ids.Node) string { return servicePrefix + string(node) + "-" }

// OfAlloc is the prefix of the ids of an alloc's services on a node.
func OfAlloc(node ids.Node, a ids.Alloc) string { return Prefix(node) + string(a) + "-" }

// Own reports whether a service is of a node's own.
func Own(node ids.Node, id string) bool { return node != "" && strings.HasPrefix(id, Prefix(node)) }

// CheckID is the id of a check of a service: two definitions never share one.
func CheckID(service string, c Check) string {
	parts := []string{service, c.Name, c.Notes, c.Status, c.Interval, c.Timeout, c.TTL, c.HTTP, c.Method, c.Body, c.TCP,
		c.GRPC, flag(c.GRPCTLS), c.TLSServer, flag(c.TLSSkip), number(c.SuccessBeforePassing),
		number(c.FailuresBeforeWarning), number(c.FailuresBeforeCritical), c.DeregisterAfter}
	if c.Alias != "" { // so that the ids of others stay
		parts = append(parts, c.Alias)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Header)) {
		parts = append(append(parts, name), c.Header[name]...)
	}
	return checkPrefix + digest(parts)
}

// Mark is what tells one set of tags that a job gives from another.
func Mark(tags []string) string {
	return digest(set(tags))[:16]
}

func digest(parts []string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:])
}

func flag(b bool) string {
	if b {
		return "1"
	}
	return ""
}
