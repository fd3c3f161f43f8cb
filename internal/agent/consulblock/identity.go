package consulblock

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"berth/internal/base/pattern"
	"berth/internal/model/job"
	"berth/internal/model/workload"
)

// DefaultMethod is the auth method of Consul to which identities are shown where the block has some and names none.
const DefaultMethod = "nomad-workloads"

// TaskIdentityName is the name of the identity that tasks are given by task_identity.
const TaskIdentityName = workload.ForConsul

// Identity is the identity that services, or tasks, have for Consul whose job says nothing of one.
type Identity struct {
	Audience    []string          `hcl:"aud"`
	Env         *bool             `hcl:"env"`  // of tasks: they find it in their environment
	File        *bool             `hcl:"file"` // of tasks: and in a file
	TTL         *time.Duration    `hcl:"ttl"`  // not set: it is good as long as the alloc runs
	ExtraClaims map[string]string `hcl:"extra_claims,map"`
}

// leastTTL keeps identities from being renewed all the time.
const leastTTL = time.Minute

var methodName = pattern.Of(`^[a-zA-Z0-9-]{1,128}$`)

// identity is what is given to those whose job says nothing; nil: they have none.
func (i *Identity) identity(name string) *job.WorkloadIdentity {
	if i == nil {
		return nil
	}
	out := &job.WorkloadIdentity{
		Name:        name,
		Audience:    i.Audience,
		Env:         i.Env != nil && *i.Env,
		File:        i.File != nil && *i.File,
		ExtraClaims: i.ExtraClaims,
	}
	if i.TTL != nil {
		out.TTL = *i.TTL
	}
	return out
}

// ServiceIdentity is that of services whose job has none; nil: they have none. Its name is each service's own.
func (b *Block) ServiceIdentity() *job.WorkloadIdentity {
	if b == nil {
		return nil
	}
	return b.Service.identity("")
}

// TaskIdentity is that of tasks whose job has none of its name; nil: they have none.
func (b *Block) TaskIdentity() *job.WorkloadIdentity {
	if b == nil {
		return nil
	}
	return b.Task.identity(TaskIdentityName)
}

// ServiceMethod is the auth method at which identities of services are turned into tokens; empty: there is none.
func (b *Block) ServiceMethod() string {
	if b == nil {
		return ""
	}
	return methodOf(b.ServiceAuthMethod, b.Service)
}

// TaskMethod is the same for identities of tasks.
func (b *Block) TaskMethod() string {
	if b == nil {
		return ""
	}
	return methodOf(b.TaskAuthMethod, b.Task)
}

func methodOf(name string, i *Identity) string {
	if name == "" && i != nil {
		return DefaultMethod
	}
	return name
}

// checkIdentities refuses identities that nobody could believe, and auth methods that Consul cannot have.
func (b *Block) checkIdentities() error {
	var errs []error
	for _, f := range []struct{ name, method string }{
		{"service_auth_method", b.ServiceAuthMethod}, {"task_auth_method", b.TaskAuthMethod},
	} {
		if f.method != "" && !methodName().MatchString(f.method) {
			errs = append(errs, refuse(fmt.Sprintf("%s %q", f.name, f.method), "Consul has no auth method of this name",
				"write letters, digits and dashes, at most 128"))
		}
	}
	errs = append(errs, b.Service.check("service_identity"), b.Task.check("task_identity"))
	if i := b.Service; i != nil && (i.Env != nil || i.File != nil) {
		errs = append(errs, refuse("service_identity env and file", "a service has no place where it would find them",
			"leave them out, or write them in the identity block of a service that belongs to a task"))
	}
	return errors.Join(errs...)
}

func (i *Identity) check(name string) error {
	switch {
	case i == nil:
		return nil
	case len(i.Audience) == 0 || slices.Contains(i.Audience, ""):
		return refuse(name+" aud", "an identity names who is meant to believe it", `write aud = ["consul.io"]`)
	case slices.Contains(i.Audience, workload.Audience):
		return refuse(name+" aud", workload.Audience+" would have Consul speak to Berth as the task",
			`write aud = ["consul.io"]`)
	case i.TTL != nil && *i.TTL < leastTTL:
		return refuse(fmt.Sprintf("%s ttl %s", name, *i.TTL), "it would be renewed all the time",
			fmt.Sprintf("write %s or more, such as 1h", leastTTL))
	}
	return nil
}

func (i *Identity) override(f *Identity) {
	if f.Audience != nil {
		i.Audience = f.Audience
	}
	if f.Env != nil {
		i.Env = f.Env
	}
	if f.File != nil {
		i.File = f.File
	}
	if f.TTL != nil {
		i.TTL = f.TTL
	}
	if f.ExtraClaims != nil {
		i.ExtraClaims = f.ExtraClaims
	}
}
