package access

import (
	"net/http"

	"berth/internal/model/workload"
	"berth/internal/wire"
)

// Task guards the socket in a task's own directory. Whoever reaches it is the task, and may do what its signed identity
// gives, which every request shows: neither that it reaches the socket gives anything, nor another token, nor what is
// given to requests without one; also where access control lists are off.
type Task struct{}

// Admit implements Guard.
func (Task) Admit(r *http.Request) (wire.Person, error) {
	shown := Token(r)
	switch {
	case makesFirst(r):
		return wire.Person{}, first("tasks are not the cluster's")
	case shown.Empty():
		return wire.Person{}, denied("the request shows no identity",
			"have the task's identity block say env = true, and send Authorization: Bearer $NOMAD_TOKEN")
	case !workload.Is(shown):
		return wire.Person{}, denied("by a task's socket its own identity counts alone, and this token is none",
			"show $NOMAD_TOKEN; with another token call the agent's port")
	}
	return wire.Person{Token: shown}, nil
}
