// Package consulsetup owns what is said about setting up the access lists of Consul between the command line and what
// speaks to Consul: which objects there are to be, and what becomes of each.
package consulsetup

import "berth/internal/base/redact"

// Asked says where Consul is and what it is to have.
type Asked struct {
	Consul Consul
	// Method is the name of the auth method; Audience is whom identities are meant for.
	Method, Audience string
	// Keys is the URL of the public keys of Berth's servers, and KeysCA who has signed the certificate there, PEM;
	// empty: an authority of the machine.
	Keys, KeysCA string
	// Namespace is that of the tasks whose role is made.
	Namespace string
	// TaskRules are what tasks may do, as rules of Consul; empty: what their policy says already, or else that they
	// find services.
	TaskRules string
	// Gateway is a terminating one of that namespace; without a name there is none.
	Gateway Gateway
	// Apply: what is missing is written; otherwise it is only said.
	Apply bool
}

// Gateway is a terminating gateway, and for whom it speaks.
type Gateway struct {
	Name     string
	Services []string
}

// Consul is an agent of Consul, and as whom it is spoken to.
type Consul struct {
	Address                   string // as HOST:PORT or a URL; empty: where it usually is
	Token                     redact.Secret
	TLS, SkipVerify           bool
	CAFile, CertFile, KeyFile string
}

// What becomes of an object.
const (
	Create    = "create"
	Update    = "update"
	Unchanged = "unchanged"
	Kept      = "kept" // it is another than it would be made, and its owner's
)

// Report is what there is to be and what became of it.
type Report struct {
	Applied bool
	Steps   []Step
}

// Step is an object of Consul's access lists.
type Step struct {
	Kind   string // as the program of Consul names it: "policy"
	Name   string
	Action string
	Object map[string]any // what is written, or would be
}

// To counts the objects that are to be written, or were.
func (r *Report) To() (n int) {
	for _, s := range r.Steps {
		if s.Action == Create || s.Action == Update {
			n++
		}
	}
	return n
}
