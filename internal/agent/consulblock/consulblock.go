// Package consulblock owns the block of an agent's configuration that says which agent of Consul registers the services
// of its node, and by what its servers speak with Consul. Only package agent imports it.
package consulblock

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"berth/internal/agent/overlay"
	"berth/internal/base/fault"
	"berth/internal/base/redact"
	"berth/internal/httpapi/access"
	"berth/internal/port/consul"
)

// Block is the block consul of an agent's configuration. Where there is one, its node has an agent of Consul, and so
// have its servers.
type Block struct {
	Address   string `hcl:"address"`    // not set: 127.0.0.1:8500
	TokenFile string `hcl:"token_file"` // not set: the agent is spoken to as anybody
	// Timeout is how long the agent may take to answer; not set: consul.CallTimeout.
	Timeout *time.Duration `hcl:"timeout"`
	Encryption

	// GRPCAddress is where sidecars get their configuration, as they see it; not set: 127.0.0.1:8502.
	GRPCAddress string `hcl:"grpc_address"`
	GRPCCAFile  string `hcl:"grpc_ca_file"` // PEM: who has signed its certificate; not set: it speaks without TLS

	Identities
	Fixed

	token redact.Secret
	agent *consul.Agent // since Check
}

// Encryption is how the agent of Consul is known, and the agent of Berth to it.
type Encryption struct {
	SSL       *bool  `hcl:"ssl"`
	VerifySSL *bool  `hcl:"verify_ssl"` // not set: it is verified
	CAFile    string `hcl:"ca_file"`    // PEM; not set: the machine's own authorities
	CertFile  string `hcl:"cert_file"`  // PEM: what the agent of Consul may ask for
	KeyFile   string `hcl:"key_file"`   // PEM
}

// Identities are those by which services and tasks get tokens of their own.
type Identities struct {
	Service           *Identity `hcl:"service_identity,block"`
	Task              *Identity `hcl:"task_identity,block"`
	ServiceAuthMethod string    `hcl:"service_auth_method"`
	TaskAuthMethod    string    `hcl:"task_auth_method"`
}

// Fixed is what has one value here: others are refused.
type Fixed struct {
	Name               string `hcl:"name"`
	Namespace          string `hcl:"namespace"`
	AutoAdvertise      *bool  `hcl:"auto_advertise"`
	ChecksUseAdvertise *bool  `hcl:"checks_use_advertise"`
	ClientAutoJoin     *bool  `hcl:"client_auto_join"`
	ServerAutoJoin     *bool  `hcl:"server_auto_join"`
	ShareSSL           *bool  `hcl:"share_ssl"`
}

// Refused are names by which the settings are known elsewhere.
var Refused = map[string]string{
	"allow_unauthenticated":           "services and tasks have tokens of their own, never a user's; leave it out",
	"auth":                            "access lists of Consul have tokens: " + writeFile,
	"client_failures_before_critical": notRegistered,
	"client_failures_before_warning":  notRegistered,
	"client_http_check_name":          notRegistered,
	"client_service_name":             notRegistered,
	"partition":                       "there is one cluster of Consul, without partitions; leave it out",
	"server_failures_before_critical": notRegistered,
	"server_failures_before_warning":  notRegistered,
	"server_http_check_name":          notRegistered,
	"server_rpc_check_name":           notRegistered,
	"server_serf_check_name":          notRegistered,
	"server_service_name":             notRegistered,
	"tags":                            notRegistered,
	"token":                           "a file keeps it from being read by others: " + writeFile,
}

const writeFile = `write token_file = "/etc/berth/consul.token"`

const notRegistered = "agents of Berth are not registered in Consul; leave it out"

// The bounds of Timeout.
const (
	leastTimeout = 100 * time.Millisecond
	mostTimeout  = 5 * time.Minute
)

// Override lays f over b.
func (b *Block) Override(f *Block) {
	for _, s := range []struct{ into, from *string }{
		{&b.Address, &f.Address},
		{&b.TokenFile, &f.TokenFile},
		{&b.CAFile, &f.CAFile},
		{&b.CertFile, &f.CertFile},
		{&b.KeyFile, &f.KeyFile},
		{&b.GRPCAddress, &f.GRPCAddress},
		{&b.GRPCCAFile, &f.GRPCCAFile},
		{&b.ServiceAuthMethod, &f.ServiceAuthMethod},
		{&b.TaskAuthMethod, &f.TaskAuthMethod},
		{&b.Name, &f.Name},
		{&b.Namespace, &f.Namespace},
	} {
		overlay.Pick(s.into, *s.from)
	}
	for _, s := range []struct{ into, from **bool }{
		{&b.SSL, &f.SSL},
		{&b.VerifySSL, &f.VerifySSL},
		{&b.AutoAdvertise, &f.AutoAdvertise},
		{&b.ChecksUseAdvertise, &f.ChecksUseAdvertise},
		{&b.ClientAutoJoin, &f.ClientAutoJoin},
		{&b.ServerAutoJoin, &f.ServerAutoJoin},
		{&b.ShareSSL, &f.ShareSSL},
	} {
		overlay.Pick(s.into, *s.from)
	}
	overlay.Pick(&b.Timeout, f.Timeout)
	for _, s := range []struct{ into, from **Identity }{{&b.Service, &f.Service}, {&b.Task, &f.Task}} {
		if *s.from == nil {
			continue
		}
		if *s.into == nil {
			*s.into = &Identity{}
		}
		(*s.into).override(*s.from)
	}
}

// Check refuses what cannot work, and reads the token.
func (b *Block) Check() error {
	if b == nil {
		return nil
	}
	errs := []error{b.checkPaths(), b.checkFixed(), b.checkIdentities()}
	if t := b.Timeout; t != nil && (*t < leastTimeout || *t > mostTimeout) {
		errs = append(errs, refuse(fmt.Sprintf("timeout %s", *t), "it is too short or too long for an answer",
			fmt.Sprintf("write one from %s to %s", leastTimeout, mostTimeout)))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if b.TokenFile != "" {
		token, err := access.ReadToken(b.TokenFile, os.Geteuid())
		if err != nil {
			return fault.Note(err, "configure", "consul token_file "+b.TokenFile)
		}
		b.token = token
	}
	agent, err := consul.New(*b.Agent())
	if err != nil {
		return fault.Note(err, "configure", "consul")
	}
	b.agent = agent
	return fault.Note(b.checkMesh(), "configure", "consul")
}

func (b *Block) checkPaths() error {
	var errs []error
	for _, f := range []struct{ name, path string }{
		{"token_file", b.TokenFile},
		{"ca_file", b.CAFile},
		{"cert_file", b.CertFile},
		{"key_file", b.KeyFile},
		{"grpc_ca_file", b.GRPCCAFile},
	} {
		if f.path != "" && !filepath.IsAbs(f.path) {
			errs = append(errs, refuse(f.name+" "+f.path, "its path must be absolute",
				"write "+f.name+" with the directory, below /etc/berth"))
		}
	}
	if (b.CertFile == "") != (b.KeyFile == "") {
		errs = append(errs, refuse("cert_file and key_file", "there is one without the other", "write both, or none"))
	}
	return errors.Join(errs...)
}

// checkFixed refuses other values of what has one.
func (b *Block) checkFixed() error {
	var errs []error
	for _, f := range []struct{ name, value string }{{"name", b.Name}, {"namespace", b.Namespace}} {
		if f.value != "" && f.value != "default" {
			errs = append(errs, refuse(fmt.Sprintf("%s %q", f.name, f.value),
				"there is one cluster of Consul, without namespaces", "leave it out"))
		}
	}
	const none = "agents of Berth are not registered in Consul"
	const join = "agents of Berth do not find each other by Consul"
	for _, f := range []struct {
		name      string
		value     *bool
		why, hint string
	}{
		{"auto_advertise", b.AutoAdvertise, none, "leave it out"},
		{"checks_use_advertise", b.ChecksUseAdvertise, none, "leave it out"},
		{"client_auto_join", b.ClientAutoJoin, join, "write the addresses of servers: client { servers = [...] }"},
		{"server_auto_join", b.ServerAutoJoin, join,
			"write the addresses of servers: server { server_join { retry_join = [...] } }"},
		{"share_ssl", b.ShareSSL, "tasks are given no certificates of the agent's", "leave it out"},
	} {
		if f.value != nil && *f.value {
			errs = append(errs, refuse(f.name+" = true", f.why, f.hint))
		}
	}
	return errors.Join(errs...)
}

func refuse(what, why, hint string) error {
	return fault.WithHint(fault.New(fault.Invalid, "configure", "consul "+what, why), hint)
}

// Agent is how the agent of Consul is spoken to; nil: the node has none.
func (b *Block) Agent() *consul.Config {
	if b == nil {
		return nil
	}
	out := &consul.Config{
		Address:    b.Address,
		Token:      b.token,
		TLS:        b.SSL != nil && *b.SSL,
		SkipVerify: b.VerifySSL != nil && !*b.VerifySSL,
		CAFile:     b.CAFile,
		CertFile:   b.CertFile,
		KeyFile:    b.KeyFile,
	}
	if b.Timeout != nil {
		out.Timeout = *b.Timeout
	}
	out.Mesh, _ = b.Mesh() // Check has refused what cannot be read
	return out
}

// Reached is the agent of Consul as Check has found it; nil: there is none.
func (b *Block) Reached() *consul.Agent {
	if b == nil {
		return nil
	}
	return b.agent
}
