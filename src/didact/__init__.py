"""Which explanation of your model can you trust? didact judges explanations by what they teach."""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0.dev0"

if TYPE_CHECKING:
    from didact.auditing.audit import audit
    from didact.auditing.config import AuditConfig
    from didact.auditing.summarise import summarise_audits
    from didact.comparing.combine import combine
    from didact.comparing.compare import compare, forecast
    from didact.comparing.config import CompareConfig
    from didact.comparing.forecast import Forecast
    from didact.core.function import teacher_from_function
    from didact.core.linear import teacher_from_lexicon, teacher_from_sklearn
    from didact.data.load import load_data
    from didact.decorators import explainer, metric, strategy, student
    from didact.evaluation.agree import agree
    from didact.evaluation.evaluate import evaluate
    from didact.evaluation.sanity import sanity
    from didact.explaining.check_explainer import check_explainer
    from didact.explaining.explain import explain
    from didact.explaining.read_explanations import read_explanations
    from didact.explaining.stream import explain_stream
    from didact.importers.eraser import write_eraser
    from didact.learned.l2e import learn_l2e
    from didact.learned.smat import learn_smat
    from didact.learning.train import train_teacher
    from didact.models.load import load_teacher
    from didact.reports.build import report
    from didact.results.agreement import Agreement
    from didact.results.audit import Audit
    from didact.results.audit_summary import AuditSummary
    from didact.results.combined import CombinedComparison
    from didact.results.comparison import Comparison
    from didact.results.evidence import Evidence
    from didact.results.explanations import Explanations
    from didact.study.analyze import analyze_study
    from didact.study.create import new_study

__all__ = [
    "Agreement",
    "Audit",
    "AuditConfig",
    "AuditSummary",
    "CombinedComparison",
    "CompareConfig",
    "Comparison",
    "Evidence",
    "Explanations",
    "Forecast",
    "__version__",
    "agree",
    "analyze_study",
    "audit",
    "check_explainer",
    "combine",
    "compare",
    "evaluate",
    "explain",
    "explain_stream",
    "explainer",
    "forecast",
    "learn_l2e",
    "learn_smat",
    "load_data",
    "load_teacher",
    "metric",
    "new_study",
    "read_explanations",
    "report",
    "sanity",
    "strategy",
    "student",
    "summarise_audits",
    "teacher_from_function",
    "teacher_from_lexicon",
    "teacher_from_sklearn",
    "train_teacher",
    "write_eraser",
]

# Nothing heavy is imported before it is used: `import didact` stays instant.
_PUBLIC = {
    "Agreement": "didact.results.agreement:Agreement",
    "Audit": "didact.results.audit:Audit",
    "AuditConfig": "didact.auditing.config:AuditConfig",
    "AuditSummary": "didact.results.audit_summary:AuditSummary",
    "CombinedComparison": "didact.results.combined:CombinedComparison",
    "CompareConfig": "didact.comparing.config:CompareConfig",
    "Comparison": "didact.results.comparison:Comparison",
    "Evidence": "didact.results.evidence:Evidence",
    "Explanations": "didact.results.explanations:Explanations",
    "Forecast": "didact.comparing.forecast:Forecast",
    "agree": "didact.evaluation.agree:agree",
    "analyze_study": "didact.study.analyze:analyze_study",
    "audit": "didact.auditing.audit:audit",
    "check_explainer": "didact.explaining.check_explainer:check_explainer",
    "combine": "didact.comparing.combine:combine",
    "compare": "didact.comparing.compare:compare",
    "evaluate": "didact.evaluation.evaluate:evaluate",
    "explain": "didact.explaining.explain:explain",
    "explainer": "didact.decorators:explainer",
    "explain_stream": "didact.explaining.stream:explain_stream",
    "forecast": "didact.comparing.compare:forecast",
    "learn_l2e": "didact.learned.l2e:learn_l2e",
    "learn_smat": "didact.learned.smat:learn_smat",
    "load_data": "didact.data.load:load_data",
    "load_teacher": "didact.models.load:load_teacher",
    "metric": "didact.decorators:metric",
    "new_study": "didact.study.create:new_study",
    "read_explanations": "didact.explaining.read_explanations:read_explanations",
    "report": "didact.reports.build:report",
    "sanity": "didact.evaluation.sanity:sanity",
    "strategy": "didact.decorators:strategy",
    "student": "didact.decorators:student",
    "summarise_audits": "didact.auditing.summarise:summarise_audits",
    "teacher_from_function": "didact.core.function:teacher_from_function",
    "teacher_from_lexicon": "didact.core.linear:teacher_from_lexicon",
    "teacher_from_sklearn": "didact.core.linear:teacher_from_sklearn",
    "train_teacher": "didact.learning.train:train_teacher",
    "write_eraser": "didact.importers.eraser:write_eraser",
}


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'didact' has no attribute {name!r}")
    module, _, attribute = _PUBLIC[name].partition(":")
    return getattr(importlib.import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted(__all__)
