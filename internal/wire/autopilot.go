package wire

import "berth/internal/model/autopilot"

// Methods over how the servers keep themselves, served by the server half.
var (
	AutopilotGet = Unary[Query, One[autopilot.Config]]("Autopilot.Get")
	AutopilotPut = Unary[AutopilotPutRequest, AutopilotPutReply]("Autopilot.Put")
)

// AutopilotPutRequest says how the servers keep themselves.
type AutopilotPutRequest struct {
	Config autopilot.Config
	// Checked: only where the last that was said is that of index Last; 0: nothing was.
	Checked bool
	Last    uint64
	By      string // as the API knows them
}

// AutopilotPutReply says whether it holds: it does not where another one was said since.
type AutopilotPutReply struct {
	Holds bool
	Index uint64
}
