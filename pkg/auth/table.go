// SPDX-License-Identifier: Apache-2.0

package auth

import "github.com/berth-project/berth/pkg/compute"

// Scope is what a role is needed for.
type Scope string

// The scopes.
const (
	Public   Scope = "public"                  // nobody needs to sign in
	SignedIn Scope = "signed in"               // everybody who is known, with or without a role
	Anywhere Scope = "any project"             // the role for some project, or a role of the cell
	Body     Scope = "the project of the body" // as Project, once the body was read
	Project  Scope = "the project"             // the role for the project that the request is about
	Instance Scope = "its project"             // as Project; without any role there, the instance does not exist
	Cell     Scope = "the cell"                // a role of the cell
)

// Need is what an operation of the API needs.
type Need struct {
	Role  Role // the least
	Scope Scope
	Why   string // what the caller gets to see or change, for the page
}

// Operations is what each operation of the API needs, by its operationID: the one table from which
// the checks, the security of the OpenAPI document and docs/ACCESS.md come.
func Operations() map[string]Need {
	return map[string]Need{
		"healthy": {"", Public, "whether the process answers"},
		"ready":   {"", Public, "whether it has caught up: names of topics and counts"},
		"whoami":  {"", SignedIn, "the caller's own roles"},

		"boot":               {RoleMember, Body, ""},
		"boot-set":           {RoleMember, Body, ""},
		"boot-group":         {RoleMember, Body, ""},
		"list-instances":     {RoleReader, Project, ""},
		"show-instance":      {RoleReader, Instance, ""},
		"explain-instance":   {RoleReader, Instance, "counts of hosts; their names are for operators"},
		"explain-boot":       {RoleReader, Project, "counts of hosts; their names are for operators"},
		"ask-placements":     {RoleReader, Body, "counts of hosts and machines; their names, and amounts of hosts that are named, are for operators"},
		"show-console":       {RoleReader, Instance, "what the machine printed"},
		"follow-events":      {RoleReader, Project, "of all projects for operators"},
		"show-story":         {RoleReader, Instance, "who asked for what; what was refused is for operators"},
		"change-instance":    {RoleMember, Instance, ""},
		"delete-instance":    {RoleMember, Instance, ""},
		"stop-instance":      {RoleMember, Instance, ""},
		"start-instance":     {RoleMember, Instance, ""},
		"reboot-instance":    {RoleMember, Instance, ""},
		"show-quota":         {RoleReader, Project, "the default quota is everybody's"},
		"list-groups":        {RoleReader, Project, ""},
		"show-group":         {RoleReader, Project, "hosts by opaque ids; their names are for operators"},
		"create-group":       {RoleMember, Project, ""},
		"set-group":          {RoleMember, Project, ""},
		"change-group":       {RoleMember, Project, ""},
		"delete-group":       {RoleMember, Project, ""},
		"list-reservations":  {RoleReader, Project, ""},
		"show-reservation":   {RoleReader, Project, "hosts by opaque ids; their names are for operators"},
		"create-reservation": {RoleMember, Project, ""},
		"delete-reservation": {RoleMember, Project, ""},
		"list-quotas":        {RoleReader, Anywhere, "the default and those of the caller's projects"},

		"list-flavors":      {RoleReader, Anywhere, ""},
		"show-flavor":       {RoleReader, Anywhere, ""},
		"list-capabilities": {RoleReader, Anywhere, ""},
		"show-capability":   {RoleReader, Anywhere, ""},
		"show-capacity":     {RoleReader, Anywhere, "counts and sums of all projects together, also where few hosts have the value"},
		"list-queues":       {RoleReader, Anywhere, "counts of all projects together"},
		"show-queue":        {RoleReader, Anywhere, "counts of all projects together"},

		"list-rejected": {RoleReader, Project, "requests that name it, for operators all records"},

		"list-hosts":          {RoleOperator, Cell, ""},
		"show-host":           {RoleOperator, Cell, ""},
		"list-host-instances": {RoleOperator, Cell, "of all projects"},
		"drain-host":          {RoleOperator, Cell, ""},
		"disable-host":        {RoleOperator, Cell, ""},
		"enable-host":         {RoleOperator, Cell, ""},

		"evacuate-host":     {RoleAdmin, Cell, "ends or moves machines of all projects"},
		"forget-host":       {RoleAdmin, Cell, "ends machines of all projects"},
		"add-flavor":        {RoleAdmin, Cell, ""},
		"remove-flavor":     {RoleAdmin, Cell, ""},
		"add-capability":    {RoleAdmin, Cell, ""},
		"remove-capability": {RoleAdmin, Cell, ""},
		"set-quota":         {RoleAdmin, Cell, ""},
		"change-quota":      {RoleAdmin, Cell, ""},
		"list-tokens":       {RoleAdmin, Cell, "never a secret"},
		"create-token":      {RoleAdmin, Cell, "the secret, once"},
		"revoke-token":      {RoleAdmin, Cell, ""},
		"list-audit":        {RoleAdmin, Cell, "who did what, of all projects"},
	}
}

// Check answers nil where the principal has what is needed, for the project that the request is about
// if it is about one. Otherwise it says which role it lacks, on what: KindForbidden.
func (n Need) Check(p Principal, project compute.Project) error {
	switch n.Scope {
	case Public, SignedIn:
		return nil
	case Anywhere:
		if p.MaySomewhere(n.Role) {
			return nil
		}
		return n.lacks(p, "a project")
	case Project, Instance, Body:
		if p.May(n.Role, project) || project == compute.DefaultQuota && p.MaySomewhere(n.Role) {
			return nil
		}
		return n.lacks(p, "project "+string(project))
	case Cell:
		if p.May(n.Role, "") {
			return nil
		}
	}
	return n.lacks(p, "the cell") // also of what the table does not know
}

// CheckEarly is Check for as long as nothing is known of the body.
func (n Need) CheckEarly(p Principal, project compute.Project) error {
	if n.Scope == Body {
		n.Scope = Anywhere
	}
	return n.Check(p, project)
}

// Words say what is needed, as in "member on the project"; empty: nothing.
func (n Need) Words() string {
	switch n.Scope {
	case Public:
		return ""
	case SignedIn:
		return "any token that counts"
	case Anywhere:
		return string(n.Role) + " on any project"
	case Cell:
		return string(n.Role) + " on the cell"
	}
	return string(n.Role) + " on the project"
}

func (n Need) lacks(p Principal, what string) error {
	return &compute.Error{
		Kind: compute.KindForbidden, Field: "role", Value: string(n.Role),
		Message: "is needed on " + what + ", and " + p.Name + " does not have it",
		Remedy:  "berth whoami shows your roles; ask an admin of this cell for a token with this one",
	}
}
