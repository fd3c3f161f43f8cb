package api

// Phases of an allocation that runs or is to run; one that has ended has its client status for a phase.
const (
	AllocPhasePending    = "pending"
	AllocPhaseRunning    = "running"
	AllocPhaseRestarting = "restarting" // a task has ended and waits for its next start
	AllocPhaseStopping   = "stopping"   // it is to stop, and its tasks have not all ended
	AllocPhaseReleasing  = "releasing"  // its tasks have ended, its storage is not free yet
)

// Phase is how the allocation stands, in one word: what its standing says, or else what its statuses tell.
func (a *Allocation) Phase() string { return phase(a.Standing, a.DesiredStatus, a.ClientStatus) }

// Phase is how the allocation stands, in one word: what its standing says, or else what its statuses tell.
func (a *AllocationListStub) Phase() string {
	return phase(a.Standing, a.DesiredStatus, a.ClientStatus)
}

func phase(s *AllocStanding, desired, client string) string {
	switch {
	case s != nil && s.Phase != "":
		return s.Phase
	case desired != AllocDesiredStatusRun && (client == AllocClientStatusRunning || client == AllocClientStatusPending):
		return AllocPhaseStopping
	}
	return client
}
