package wire

// SaidBy notes whose word it is. Of a person with a token servers know better than the API that passed the word on.
func (r *VolumeDetachRequest) SaidBy(name string) { r.By = name }

// SaidBy notes whose word it is.
func (r *VolumeReleaseRequest) SaidBy(name string) { r.By = name }

// SaidBy notes whose word it is.
func (r *RecoveryWord) SaidBy(name string) { r.By = name }

// SaidBy notes whose word it is.
func (r *NodeReplaceRequest) SaidBy(name string) { r.By = name }

// SaidBy notes whose word it is.
func (r *OrphanAdoptRequest) SaidBy(name string) { r.By = name }

// SaidBy notes whose word it is.
func (r *ForgetMountRequest) SaidBy(name string) { r.By = name }

// SaidBy notes whose word it is.
func (r *RebootConfirmRequest) SaidBy(name string) { r.By = name }

// SaidBy notes whose word it is.
func (r *ReadmitRequest) SaidBy(name string) { r.By = name }

// SaidBy notes who asked for it.
func (r *AdmitRequest) SaidBy(name string) { r.By = name }

// SaidBy notes who asked for it.
func (r *ACLPolicyPutRequest) SaidBy(name string) { r.By = name }

// SaidBy notes who asked for it.
func (r *ACLDeleteRequest) SaidBy(name string) { r.By = name }

// SaidBy notes who asked for it.
func (r *ACLRolePutRequest) SaidBy(name string) { r.By = name }

// SaidBy notes who asked for it.
func (r *ACLTokenPutRequest) SaidBy(name string) { r.By = name }

// SaidBy notes whose word it is.
func (r *DenialRequest) SaidBy(name string) { r.By = name }

// SaidBy notes who asked for it.
func (r *NamespacePutRequest) SaidBy(name string) { r.By = name }

// SaidBy notes who asked for it.
func (r *NodePoolPutRequest) SaidBy(name string) { r.By = name }

// SaidBy notes who asked for it.
func (r *PartitionDeleteRequest) SaidBy(name string) { r.By = name }
