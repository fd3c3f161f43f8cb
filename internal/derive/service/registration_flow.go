package service

import (
	"slices"

	"berth/internal/model/alloc"
	"berth/internal/model/job"
)

// Registered reports whether an alloc's service is found: while it is to run and its node says that it does, and while
// the task runs that answers for it. So it is gone with the servers' decision to stop it, before its node hears of
// that, and with the loss of its node.
func Registered(a *alloc.Alloc, task string) bool {
	if a.ServerTerminal() || a.ClientStatus != alloc.ClientRunning {
		return false
	}
	if task == "" {
		return true
	}
	s := a.TaskStates[task]
	return s != nil && s.State == alloc.TaskRunning
}

// Registrations are the services of an alloc that are found now. One that cannot be put together is passed over: its
// node says why.
func Registrations(s Source) []*Registration {
	if s.Alloc.ServerTerminal() || s.Alloc.ClientStatus != alloc.ClientRunning {
		return nil // without a look at its job
	}
	all, _ := Instances(s)
	var out []*Registration
	for _, i := range all {
		if Registered(s.Alloc, i.Task) && !slices.Contains(s.Alloc.Withdrawn, i.ID) {
			out = append(out, &i.Registration)
		}
	}
	return out
}

// ToBeInConsul are the services of an alloc that is to run which are to be found in Consul. Whether they are knows its
// node alone.
func ToBeInConsul(s Source) (out []*Registration) {
	if s.Alloc.ServerTerminal() {
		return nil
	}
	all, _ := s.instances(func(provider string) bool { return provider == job.ProviderConsul })
	for _, i := range all {
		out = append(out, &i.Registration)
	}
	return out
}
