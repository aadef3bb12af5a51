"""Number the ways in which the server ends, and say in both languages what keeps it, or a command, from its data."""

from enum import IntEnum

from sqlalchemy.exc import SQLAlchemyError

from server.code_key import CodeKeyDiffers
from server.db.errors import DatabaseDamaged, DatabaseTrouble, DataDirInUse, NewerSchema


class ExitCode(IntEnum):
    """Number the ways in which `serve` ends; the same as those of the command line (`cli/exits.py`)."""

    OK = 0
    CANNOT_START = 2
    PORT_IN_USE = 3
    DATA_IN_USE = 4
    NEWER_DATA = 5
    DAMAGED_DATA = 6
    UNAVAILABLE = 7
    OTHER_CODE_KEY = 9


class PortInUse(Exception):
    """Refuse to be the second server on one port."""


_IN_CHINESE = {
    ExitCode.CANNOT_START: "无法启动，原因见下一行。",
    ExitCode.PORT_IN_USE: "端口已被其他程序占用：请关闭该程序，或用 --port 换一个端口。没有任何数据受影响。",
    ExitCode.DATA_IN_USE: "数据文件夹正被另一个 Pawtill 服务器使用：每个文件夹只能运行一个服务器。没有任何数据受影响。",
    ExitCode.NEWER_DATA: "数据由更新版本的 Pawtill 写入：请运行新版本。没有任何数据受影响。",
    ExitCode.DAMAGED_DATA: "数据库已损坏：请从备份恢复，不要删除任何文件。",
    ExitCode.OTHER_CODE_KEY: (
        "数据文件夹里的密钥（code.key 或 chain.key）不是这个数据库的："
        "请从最先建立该数据库的服务器的数据文件夹复制 code.key 和 chain.key。没有任何数据受影响。"
    ),
    ExitCode.UNAVAILABLE: "数据库暂时无法读写（被占用、只读或磁盘已满），什么都没有改动。",
}
"""What each way means, for those who do not read English; the details follow in English."""

_ADVICE = {
    ExitCode.NEWER_DATA: "; run the newer version of Pawtill",
    ExitCode.DAMAGED_DATA: "; restore it from a backup",
}


def exit_code(error: Exception) -> ExitCode:
    """Return the way in which a command ends that met this."""
    match error:
        case PortInUse():
            return ExitCode.PORT_IN_USE
        case DataDirInUse():
            return ExitCode.DATA_IN_USE
        case NewerSchema():
            return ExitCode.NEWER_DATA
        case DatabaseDamaged():
            return ExitCode.DAMAGED_DATA
        case CodeKeyDiffers():
            return ExitCode.OTHER_CODE_KEY
        case DatabaseTrouble() | SQLAlchemyError():
            return ExitCode.UNAVAILABLE
        case _:
            return ExitCode.CANNOT_START


def in_words(error: Exception) -> tuple[str, str]:
    """Return what a person should know of it: a line in Chinese, one in English."""
    code = exit_code(error)
    return _IN_CHINESE[code], f"{error}{_ADVICE.get(code, '')}"
