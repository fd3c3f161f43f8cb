// Package workload owns what is said of a task in a signed identity, and when it is believed: claims, their signature
// (JSON Web Tokens, RFC 7519, signed with Ed25519, RFC 8037, or with RSA) and the identities that a task has. It signs
// with keys that it is given, and knows no state. Servers sign and believe, nodes ask for what tasks are shown.
package workload

import (
	"crypto/ed25519"
	"crypto/rsa"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/pattern"
	"berth/internal/base/redact"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
)

// Audience is whom an identity names that Berth itself takes for a token; clients of this API know it by that name.
const Audience = "nomadproject.io"

// ForConsul is the name of the identity of a task for which it gets a token of Consul.
const ForConsul = "consul_default"

// MinTTL is the shortest time for which an identity may be good: the servers sign each anew within half of it.
const MinTTL = 5 * time.Second

// maxToken bounds what is looked at as a signed identity, in bytes.
const maxToken = 16 << 10

// Claims are what an identity says.
type Claims struct {
	jwt.Claims
	Namespace ids.Namespace `json:"nomad_namespace"`
	Job       ids.Job       `json:"nomad_job_id"`
	Alloc     ids.Alloc     `json:"nomad_allocation_id"`
	Task      string        `json:"nomad_task,omitempty"`
	Service   string        `json:"nomad_service,omitempty"` // instead of Task: the service that it is of
	// Extra is what the job says beside that: its author may say anything there.
	Extra map[string]string `json:"extra_claims,omitempty"`
}

// Ends is when the identity is good no longer; zero: it does not say.
func (c *Claims) Ends() time.Time {
	if c.Expiry == nil {
		return time.Time{}
	}
	return c.Expiry.Time()
}

// Statement is what is to be signed.
type Statement struct {
	Alloc    *alloc.Alloc
	Task     string
	Service  string // of the identity of a service: its name, with what it refers to
	Identity *job.WorkloadIdentity
	Region   string
	Issuer   string // empty: none is named
	Now      time.Time
	Place    Place
}

// Key signs.
type Key struct {
	ID      string
	Private ed25519.PrivateKey
	RSA     *rsa.PrivateKey // for who cannot check Ed25519; nil: there is none
}

// RSAExponent is the public exponent of every RSA key that signs identities.
const RSAExponent = 65537

// RSAID is the name of the RSA pair of a key: each public key has one of its own.
func RSAID(key string) string { return key + "-rs256" }

// ForOthers tells whether an identity is one that Berth itself believes never. Those are signed by RS256, which every
// client of OpenID Connect can check (OpenID Connect Core 1.0, section 15.1).
func ForOthers(id *job.WorkloadIdentity) bool { return !slices.Contains(id.Audience, Audience) }

// signer signs with the pair that an identity asks for.
func (k Key) signer(id *job.WorkloadIdentity) (jose.Signer, error) {
	key, name := jose.SigningKey{Algorithm: jose.EdDSA, Key: k.Private}, k.ID
	if k.RSA != nil && ForOthers(id) {
		key, name = jose.SigningKey{Algorithm: jose.RS256, Key: k.RSA}, RSAID(k.ID)
	}
	return jose.NewSigner(key, (&jose.SignerOptions{}).WithType("JWT").WithHeader("kid", name))
}

// Sign makes the identity that a statement asks for.
func (k Key) Sign(s *Statement) (redact.Secret, error) {
	c := Claims{Namespace: s.Alloc.Namespace, Job: s.Alloc.Job, Alloc: s.Alloc.ID, Task: s.Task}
	if s.Service != "" {
		c.Task, c.Service = "", s.Service
	}
	c.Issuer = s.Issuer
	c.Subject = strings.Join([]string{
		s.Region, string(c.Namespace), string(c.Job), s.Alloc.TaskGroup, c.Task + c.Service, s.Identity.Name,
	}, ":")
	c.Audience = jwt.Audience(s.Identity.Audience)
	c.ID = ids.New()
	var err error
	if c.Extra, err = s.extra(); err != nil {
		return redact.Secret{}, err
	}
	c.IssuedAt, c.NotBefore = jwt.NewNumericDate(s.Now), jwt.NewNumericDate(s.Now)
	if s.Identity.TTL > 0 {
		c.Expiry = jwt.NewNumericDate(s.Now.Add(s.Identity.TTL))
	}
	signer, err := k.signer(s.Identity)
	if err != nil {
		return redact.Secret{}, fault.Wrap(err, fault.Internal, "sign", "identity "+c.Subject)
	}
	text, err := jwt.Signed(signer).Claims(&c).Serialize()
	if err != nil {
		return redact.Secret{}, fault.Wrap(err, fault.Internal, "sign", "identity "+c.Subject)
	}
	return redact.New(text), nil
}

// Leeway is how far the clocks of servers may be apart for what one has just signed to be believed by another.
const Leeway = 10 * time.Second

var form = pattern.Of(`^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$`)

// Is tells whether a token has the form of a signed identity; every other is one of access control lists.
func Is(token redact.Secret) bool {
	text := token.Reveal()
	return len(text) <= maxToken && form().MatchString(text)
}

// Read says what a token says, if it is signed with one of the keys that public gives by their ids (nil: there is
// none), is good now, and is meant for Berth. Any other is an error, which says nothing that its bearer could learn
// from.
func Read(token redact.Secret, public func(id string) ed25519.PublicKey, now time.Time) (*Claims, error) {
	refused := fault.New(fault.Denied, "", "", "the identity is not believed")
	if !Is(token) {
		return nil, refused
	}
	t, err := jwt.ParseSigned(token.Reveal(), []jose.SignatureAlgorithm{jose.EdDSA})
	if err != nil || len(t.Headers) != 1 {
		return nil, refused
	}
	key := public(t.Headers[0].KeyID)
	if len(key) != ed25519.PublicKeySize {
		return nil, refused
	}
	c := &Claims{}
	if err := t.Claims(key, c); err != nil || c.IssuedAt == nil {
		return nil, refused
	}
	if c.Expiry != nil && !now.Before(c.Expiry.Time()) { // to the second: nothing is good for longer than it says
		return nil, refused
	}
	if c.Service != "" { // it speaks for no task, which alone may do something here
		return nil, refused
	}
	if err := c.ValidateWithLeeway(jwt.Expected{Time: now, AnyAudience: jwt.Audience{Audience}}, Leeway); err != nil {
		return nil, refused
	}
	return c, nil
}

// Default is the identity that a task has which asks for none.
func Default() *job.WorkloadIdentity {
	return &job.WorkloadIdentity{Name: job.DefaultIdentity, Audience: []string{Audience}}
}

// Variable is the name by which a task finds an identity in its environment.
func Variable(name string) string {
	if name == job.DefaultIdentity {
		return "NOMAD_TOKEN"
	}
	return "NOMAD_TOKEN_" + strings.ReplaceAll(name, "-", "_")
}

// File is where a task finds an identity, beneath its own directory.
func File(id *job.WorkloadIdentity) string {
	switch {
	case id.Filepath != "":
		return id.Filepath
	case id.Name == job.DefaultIdentity:
		return job.SecretsDir + "/nomad_token"
	}
	return job.SecretsDir + "/nomad_" + id.Name + ".jwt"
}

// Needs is the schema of the cluster that a job's identities need; 0: it has none.
func Needs(j *job.Job) (needs uint64) {
	for _, g := range j.TaskGroups {
		for _, t := range g.Tasks {
			all := t.Identities
			if t.Identity != nil {
				all = append(slices.Clone(all), t.Identity)
			}
			for _, id := range all {
				needs = max(needs, job.SchemaIdentities)
				if len(id.ExtraClaims) > 0 {
					needs = max(needs, job.SchemaClaims)
				}
			}
		}
	}
	return needs
}
