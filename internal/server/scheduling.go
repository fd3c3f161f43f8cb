package server

import (
	"runtime"

	"berth/internal/server/worker"
)

// scheduling is the part that places allocs.
func scheduling(c Core) (Piece, error) {
	s := worker.New(c.Store, c.Proposer, runtime.NumCPU(), c.Log)
	return Piece{Name: "scheduling", Lead: s.Run, Planner: s}, nil
}
