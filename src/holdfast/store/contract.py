"""What a store must do, as a test suite that anybody may run on their own:

    class TestMyStore(StoreContract):
        def make(self) -> Store:
            return MyStore()

Each test has an empty store of its own, which is closed afterwards. A store that outlives its process also says how it is opened
again, in `reopen`. What the protocol leaves open is settled here:

- What an execution was asked to do, `kind`, `started_at`, `first_step`, `input`, `path`, `args` and `parent_id`, is written when it is new;
  of a session so are `template_id`, `created_at`, `origin`, `worktree`, `family`, `tenant` and `token`. A later
  commit does not change them.
- Lists that are newest first go by the order in which things were added to the store, not by anybody's clock.
- Number 0 has a chain but no node. A checkpoint that another session needs cannot be pruned, nor its session deleted, before that
  session has been given another base: whoever tries gets `VersionConflict`, since the fork has come in between.
"""

from holdfast.store._contract_checkpoints import CheckpointContract
from holdfast.store._contract_feed import FeedContract
from holdfast.store._contract_journal import JournalContract
from holdfast.store._contract_records import RecordContract
from holdfast.store._contract_runs import RunContract
from holdfast.store._contract_sessions import SessionContract
from holdfast.store._contract_state import StateContract
from holdfast.store._contract_tenants import AuditContract, TenantContract
from holdfast.store._contract_usage import UsageContract


class StoreContract(
    SessionContract,
    RunContract,
    FeedContract,
    CheckpointContract,
    RecordContract,
    JournalContract,
    StateContract,
    TenantContract,
    AuditContract,
    UsageContract,
):
    """All of it."""
