// SPDX-License-Identifier: Apache-2.0

package compute

// Role is what a caller of the API may do: reader < member for a project; operator < admin for the
// cell. No role is the empty string.
type Role string

// The roles.
const (
	RoleReader   Role = "reader"
	RoleMember   Role = "member"
	RoleOperator Role = "operator"
	RoleAdmin    Role = "admin"
)

// Roles are all of them, the least first.
func Roles() []Role { return []Role{RoleReader, RoleMember, RoleOperator, RoleAdmin} }

// Check refuses what is no role.
func (r Role) Check() error {
	if r.rank() > 0 {
		return nil
	}
	return Invalid("role", string(r), "give reader or member for a project, operator or admin for the cell")
}

// OfCell says whether the role is held for the whole cell, and not for a project.
func (r Role) OfCell() bool { return r == RoleOperator || r == RoleAdmin }

// AtLeast says whether a caller with the role has the other one, too. An unknown role has none, and
// no role has it.
func (r Role) AtLeast(least Role) bool { return least.rank() > 0 && r.rank() >= least.rank() }

// rank orders the roles, from 1; 0 is none.
func (r Role) rank() int {
	for i, known := range Roles() {
		if r == known {
			return i + 1
		}
	}
	return 0
}
